"""A setting that cannot be used is refused at start, by its name."""

import ast
from pathlib import Path

import pytest

from engramq.schemas.passwords import without_password
from engramq.schemas.setting_values import Listening, Quotas
from engramq.schemas.settings import GONE, PREFIX, SETTINGS, Jwt, SettingsError, read_settings
from tests.architecture.source import ROOT


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ENGRAMQ_REDIS_URL", "redis://:sesame@cache:many/0"),
        ("ENGRAMQ_REDIS_URL", "redis://:sesame@[::1"),
        ("ENGRAMQ_DATABASE_URL", "postgresql://ada:sesame@[::1/memories"),
        ("ENGRAMQ_DATABASE_URL", "postgresql://ada:100%sesame@db/memories"),
        ("ENGRAMQ_JWT", "issuer=i, audience=a, keys=https://ada:sesame@login.example.org:many/jwks.json"),
        ("ENGRAMQ_PUBLIC_URL", "https://ada:sesame@memory.example.org"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable) as refusal:
        read_settings({variable: value})
    assert "sesame" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["postgresql://ada:100%25@one:1,two:2/m?host=%2Frun", "postgresql:///m?host=/run", "postgres://[::1]:5432/m"]
)
def test_urls_as_libpq_takes_them_are_taken(url: str) -> None:
    assert read_settings({"ENGRAMQ_DATABASE_URL": url}).database_url == url


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize("zone", ["Mars/Phobos", "Europe", "localtime", "../zone", "+02:00"])
def test_a_zone_that_nobody_knows_is_refused_by_name(zone: str) -> None:
    with pytest.raises(SettingsError, match="ENGRAMQ_TIMEZONE") as refusal:
        read_settings({"ENGRAMQ_TIMEZONE": zone})
    assert zone in str(refusal.value)
    assert str(read_settings({"ENGRAMQ_TIMEZONE": "Europe/Berlin"}).timezone) == "Europe/Berlin"


def test_what_is_no_list_or_place_of_its_kind_is_refused_by_name() -> None:
    for variable, value in [
        *(
            ("ENGRAMQ_QUOTAS", value)
            for value in ("memories", "tokens=1", "bytes=-1", "bytes=x", "calls=1, calls=2", "=1")
        ),
        *(("ENGRAMQ_JWT", value) for value in ("tenant", "claim=aud", "scope=", "keys=key.pem")),
        *(
            ("ENGRAMQ_HEALTH_PORT", value)
            for value in ("localhost", ":1", "0.0.0.0:", "0.0.0.0:65536", "tcp://10.0.0.1:1")
        ),
    ]:
        with pytest.raises(SettingsError, match=f"^{variable}: .* must be"):
            read_settings({variable: value})


def test_lists_and_places_say_what_is_not_as_usual() -> None:
    given = {
        "ENGRAMQ_QUOTAS": "memories=3, principal_calls=60",
        "ENGRAMQ_JWT": "issuer=i, audience=one two, keys=/k.pem, namespace=https://example.org/tenant",
        "ENGRAMQ_HEALTH_PORT": "9465",
        "ENGRAMQ_METRICS_PORT": "[::]:0",
    }
    read = read_settings(given)
    assert read.quotas == Quotas(memories=3, principal_calls=60)
    assert read.jwt == Jwt("i", ("one", "two"), Path("/k.pem"), namespace="https://example.org/tenant")
    assert (read.health_port, read.metrics_port) == (Listening("127.0.0.1", 9465), Listening("[::]", 0))


@pytest.mark.parametrize("variable", ["ENGRAMQ_NAMESPACE", "ENGRAMQ_PRINCIPAL"])
@pytest.mark.parametrize("value", ["  ", "x" * 256, "a\0b", b"caf\xe9".decode(errors="surrogateescape")])
def test_a_name_that_could_not_be_kept_is_refused(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({variable: value})
    assert variable in str(refusal.value)
    str(refusal.value).encode()


def test_a_setting_that_is_gone_is_refused_with_what_to_do_instead() -> None:
    for gone in GONE:
        for suffix in ["", "_FILE"]:
            variable = gone + suffix
            with pytest.raises(SettingsError, match=f"^{variable}: there is no such setting any more") as refusal:
                read_settings({variable: "postgresql://ada:sesame@db/memories"})
            assert GONE[gone] in str(refusal.value)
            assert "sesame" not in str(refusal.value)
            assert read_settings({variable: ""}) == read_settings({})


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("ENGRAMQ_HTTP_PORT", "Did you mean ENGRAMQ_PORT?"),
        ("ENGRAMQ_EMBEDER", "Did you mean ENGRAMQ_EMBEDDER?"),
        ("ENGRAMQ_DATABASE_URL_FIEL", "Did you mean ENGRAMQ_DATABASE_URL_FILE?"),
        ("ENGRAMQ_XYZ", "docs/settings.md"),
        ("ENGRAMQ_PORT_FILE", "there is no such setting"),
    ],
)
def test_a_variable_that_nothing_reads_is_refused(variable: str, hint: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable}: ") as refusal:
        read_settings({variable: "sesame"})
    assert hint in str(refusal.value)
    assert "sesame" not in str(refusal.value)


@pytest.mark.parametrize(
    "variable",
    ["ENGRAMQ_URL", "ENGRAMQ_TEST_REDIS_URL", "ENGRAMQ_SERVICE_HOST", "ENGRAMQ_REDIS_PORT_6379_TCP", "engramq_x", "X"],
)
def test_variables_of_clients_tests_and_kubernetes_are_let_be(variable: str) -> None:
    assert read_settings({variable: "any"}) == read_settings({})


PROGRAMS = ("gateway", "workers", "deploy")


@pytest.mark.promise("OP-11")
def test_every_documented_setting_is_read_by_a_program() -> None:
    paths = [
        ROOT / "schemas" / "connection.py",
        *(path for program in PROGRAMS for path in (ROOT / program).rglob("*.py")),
    ]
    read = {name for path in paths for name in settings_read(path)}
    assert [setting.variable for setting in SETTINGS if setting.field not in read] == []


def test_a_setting_that_is_only_named_counts_as_unread(tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    source.write_text(
        "PORT = 'ENGRAMQ_PORT'\nHOME = 'ENGRAMQ_HOME'\n"
        "def run(settings, other, environment):\n"
        "    settings.host = other.tools\n"
        "    return settings.redis_url, self._settings.auth, environment.get(HOME)\n"
    )
    assert settings_read(source) == {"redis_url", "auth", "home"}


def settings_read(path: Path) -> set[str]:
    """Return the settings that a module reads.

    They are attributes of what is called settings, and variables that are looked up in what is called environment: by
    their name, or by a constant of the module or of `deploy.settings`.
    """
    source = path.read_text()
    if "settings" not in source and "environ" not in source:
        return set()
    tree = ast.parse(source)
    constants = variables_named(tree) | DEPLOY_CONSTANTS
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name, ctx=ast.Load()):
                if owner.lstrip("_") == "settings":
                    found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="environment" | "environ"), attr="get"), args=[key, *_]):
                found.add(constants.get(name_of(key), name_of(key)))
            case ast.Subscript(value=ast.Name(id="environment" | "environ"), slice=key, ctx=ast.Load()):
                found.add(constants.get(name_of(key), name_of(key)))
            case _:
                pass
    return found


def variables_named(tree: ast.Module) -> dict[str, str]:
    """Return the fields that the constants of a module name, such as HOME = "ENGRAMQ_HOME"."""
    named = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(variable))):
                if variable.startswith(PREFIX):
                    named[name] = variable.removeprefix(PREFIX).lower()
            case _:
                pass
    return named


def name_of(node: ast.expr) -> str:
    """Return the name of a constant, or the field that a text names."""
    match node:
        case ast.Constant(value=str(variable)):
            return variable.removeprefix(PREFIX).lower()
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


DEPLOY_CONSTANTS = variables_named(ast.parse((ROOT / "deploy" / "local" / "settings.py").read_text()))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:p%40w@db/engramq", "postgresql://ada:***@db/engramq"),
        ("postgresql://ada:p@w:x@db:5432/engramq", "postgresql://ada:***@db:5432/engramq"),
        ("postgresql://db/e?user=ada&password=pw&sslmode=require", "postgresql://db/e?user=ada&password=***&sslmode=require"),
        ("redis://:pw@db:6379/0", "redis://:***@db:6379/0"),
        ("redis://db/0?password=pw", "redis://db/0?password=***"),
        ("postgresql://ada:pw@[::1/e", "postgresql://ada:***@[::1/e"),
        ("http://u:pw@collector:4318/v1/traces", "http://u:***@collector:4318/v1/traces"),
    ],
)  # fmt: skip
def test_passwords_are_starred_out_wherever_they_stand(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize(
    "address", ["postgresql://ada@/e?host=%2Frun-pg", "unix:///home/a:b/redis.sock", "redis://one:1,two:2/0", ""]
)
def test_an_address_without_a_password_stays_as_it_is(address: str) -> None:
    assert without_password(address) == address
