"""Divide the ENGRAMQ_* variables between a client and a home's running stack, and compare those of two processes.

Secrets may be mounted as files: ENGRAMQ_DATABASE_URL_FILE names the file that holds ENGRAMQ_DATABASE_URL.

Imported by the stdio relay: standard library only.
"""

import os
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path

from engramq.deploy.local.home import DeployError, Home, name_of, replace_whole
from engramq.schemas.embedder_choice import KeptEmbedder, endpoint_problem, kept_in

PREFIX = "ENGRAMQ_"
HOME = "ENGRAMQ_HOME"
DATABASE_URL = "ENGRAMQ_DATABASE_URL"
MIGRATE_DATABASE_URL = "ENGRAMQ_MIGRATE_DATABASE_URL"
REDIS_URL = "ENGRAMQ_REDIS_URL"
URL = "ENGRAMQ_URL"
HOST = "ENGRAMQ_HOST"
PORT = "ENGRAMQ_PORT"
NAMESPACE = "ENGRAMQ_NAMESPACE"
PRINCIPAL = "ENGRAMQ_PRINCIPAL"
PROJECT = "ENGRAMQ_PROJECT"
TOOLS = "ENGRAMQ_TOOLS"
OUTPUT_SCHEMAS = "ENGRAMQ_OUTPUT_SCHEMAS"
DETAIL = "ENGRAMQ_DETAIL"
REPLY_CHARS = "ENGRAMQ_REPLY_CHARS"
AUTH = "ENGRAMQ_AUTH"
EMBEDDER = "ENGRAMQ_EMBEDDER"
EMBEDDER_URL = "ENGRAMQ_EMBEDDER_URL"
EMBEDDER_KEYS = ("ENGRAMQ_EMBEDDER_KEY", "OPENAI_API_KEY")
HOOK_TOKENS = "ENGRAMQ_HOOK_TOKENS"
LINGER_S = "ENGRAMQ_TEST_LINGER_S"  # of tests alone

DEFAULT_AUTH = "none"
DEFAULT_EMBEDDER = "minilm"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
DEFAULT_LINGER_S = 5.0
DEFAULT_HOOK_TOKENS = 800
MOST_HOOK_TOKENS = 20_000
# The same words as in schemas.vocabulary (a test compares them); importing that costs the relay 12 ms.
DEFAULT_NAMESPACE = "default_user"
DEFAULT_PRINCIPAL = "I/O"
SYSTEM_PRINCIPAL = "engramq"

# Settings that each client brings itself. The stack must not inherit them from the client that started it.
PERSONAL = frozenset({NAMESPACE, PRINCIPAL, PROJECT, TOOLS, OUTPUT_SCHEMAS, DETAIL, REPLY_CHARS, HOOK_TOKENS})
# Settings that the gateway takes for HTTP from the `engramq up` that asked for it.
FOR_HTTP = PERSONAL | {HOST, PORT, AUTH} | {PREFIX + name for name in ("PUBLIC_URL", "TRUSTED_PROXIES", "JWT")}
# Settings that say which callers HTTP lets in, and as whom: a client that asks for others is refused.
OF_THE_DOOR = FOR_HTTP - {PORT, TOOLS, OUTPUT_SCHEMAS, DETAIL, REPLY_CHARS, HOOK_TOKENS}
_DEFAULTS = {
    AUTH: DEFAULT_AUTH,
    EMBEDDER: DEFAULT_EMBEDDER,
    HOST: DEFAULT_HOST,
    NAMESPACE: DEFAULT_NAMESPACE,
    PRINCIPAL: DEFAULT_PRINCIPAL,
}
# Neither personal nor a reason to call two stacks different.
_INDIFFERENT = frozenset({HOME, LINGER_S, "ENGRAMQ_LOG_LEVEL"})
# With another value of these one would read and write other data, or vectors that cannot be compared: refused.
DECISIVE = frozenset({DATABASE_URL, REDIS_URL, EMBEDDER})
# Commands but `worker` embed nothing themselves: what they have embedded, the stack's workers do in its own way.
DECISIVE_FOR_COMMANDS = DECISIVE - {EMBEDDER}


def stack_settings(environment: dict[str, str]) -> dict[str, str]:
    """The variables that concern all clients of a stack; an empty one counts as not set, and one of the default too.

    Except the embedder: where none is named the home's own is meant.
    """
    skipped = FOR_HTTP | _INDIFFERENT
    return {
        name: value
        for name, value in environment.items()
        if value
        and name.startswith(PREFIX)
        and name not in skipped
        and (value != _DEFAULTS.get(name) or name == EMBEDDER)
    }


def for_http(environment: dict[str, str]) -> dict[str, str]:
    """The variables that `engramq up` hands to the gateway for HTTP; one that says the default says nothing."""
    return {
        name: value
        for name, value in environment.items()
        if value and name in FOR_HTTP and value != _DEFAULTS.get(name)
    }


def values_of(names: list[str], values: dict[str, str]) -> str:
    """`NAME=value` for each of these variables, as it is meant where it is not set."""
    return ", ".join(f"{name}={values.get(name, _DEFAULTS.get(name, ''))}" for name in names)


def differing_from_stack(stack: Mapping[str, str], asked: dict[str, str]) -> list[str]:
    """The names of which a running stack has other values than a client asks for; who names no embedder takes its."""
    there = {EMBEDDER: DEFAULT_EMBEDDER, **stack}
    taken = () if EMBEDDER in asked else (EMBEDDER, EMBEDDER_URL)
    return differing(there, {name: there[name] for name in taken if name in there} | asked)


def differing(mine: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """The names whose values are not the same, in order."""
    return sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))


def linger_s(environment: Mapping[str, str]) -> float:
    """Seconds that a stack stays up after its last client.

    Raises DeployError when the variable is not a number from 0 to 86,400.
    """
    text = environment.get(LINGER_S) or str(DEFAULT_LINGER_S)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise DeployError("bad_setting", f"{LINGER_S}={text!r} is not a number of seconds from 0 to 86400.")
    return value


def port(environment: dict[str, str]) -> int:
    """The port that HTTP is served on; 0 lets the supervisor find a free one.

    Raises DeployError when the variable is not a port.
    """
    text = environment.get(PORT) or str(DEFAULT_PORT)
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise DeployError("bad_setting", f"{PORT}={text!r} is not a port (0 to 65535).")
    return int(text)


def require_endpoint(environment: dict[str, str]) -> None:
    """Refuse an embedder that cannot be reached.

    Raises DeployError when somebody else serves it, and neither its endpoint nor a key is set.
    """
    key = next((environment[name] for name in EMBEDDER_KEYS if environment.get(name)), "")
    problem = endpoint_problem(environment.get(EMBEDDER, ""), environment.get(EMBEDDER_URL, ""), key)
    if problem is not None:
        raise DeployError("bad_setting", problem)


def output_schemas(environment: dict[str, str]) -> bool:
    """Whether this client wants output schemas listed. Raises DeployError when the variable is neither yes nor no."""
    text = (environment.get(OUTPUT_SCHEMAS) or "0").lower()
    if text not in {"0", "1", "true", "false", "yes", "no"}:
        raise DeployError("bad_setting", f"{OUTPUT_SCHEMAS}={text!r} is neither 1 nor 0.")
    return text in {"1", "true", "yes"}


def require_text(environment: Mapping[str, str], names: Iterable[str]) -> None:
    """Refuse variables with bytes that are no UTF-8, which no message to a gateway can hold.

    Raises DeployError naming the first of them.
    """
    for name in names:
        try:
            environment.get(name, "").encode()
        except UnicodeEncodeError:
            problem = f"{name}: {environment[name]!r} cannot be used: must be a text in UTF-8."
            raise DeployError("bad_setting", problem) from None


def kept_embedder(home: Home) -> KeptEmbedder:
    """Return the embedder that made vectors of the home last, nothing where none did."""
    try:
        return kept_in(home.embedder.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return KeptEmbedder()


def principal_of(home: Home, environment: Mapping[str, str]) -> str:
    """Return who clients are that show no token: as the environment says, else as the home noted at its first start.

    Memories that only their owner sees hang on that name. Homes older than the note, and servers of one's own, keep the
    former.
    """
    if named := environment.get(PRINCIPAL):
        return named
    # Asked for before the note is read: a first start writes the note before there are data.
    is_new = not (environment.get(DATABASE_URL) or environment.get(REDIS_URL) or has_data(home))
    try:
        return home.principal.read_text("utf-8").strip() or DEFAULT_PRINCIPAL
    except (OSError, UnicodeDecodeError):
        return _login_name() if is_new else DEFAULT_PRINCIPAL


def note_principal(home: Home) -> None:
    """Write down, in a home without data, whose memories it will hold."""
    if not has_data(home) and not home.principal.exists():
        replace_whole(home.principal, _login_name(), synced=True)


def has_data(home: Home) -> bool:
    """Say whether a home's database has been made."""
    return os.path.lexists(home.postgres / "data")


def _login_name() -> str:
    name = name_of(os.geteuid())
    return DEFAULT_PRINCIPAL if name == SYSTEM_PRINCIPAL else name


def with_embedder(home: Home, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with the home's embedder and its endpoint where they name none.

    The endpoint comes with the name: texts that went to a server of one's own are shown to no other.
    """
    named = dict(environment)
    if not named.get(EMBEDDER) and (kept := kept_embedder(home)).name:
        named[EMBEDDER] = kept.name
        if kept.url and not named.get(EMBEDDER_URL):
            named[EMBEDDER_URL] = kept.url
    return named


# The settings that are secret (a test compares them with the table), and the token of a client.
SECRETS = tuple(
    PREFIX + name
    for name in (
        *("DATABASE_URL", "MIGRATE_DATABASE_URL", "REDIS_URL"),
        *("EMBEDDER_KEY", "WEBHOOKS_KEY", "METRICS_TOKEN", "TOKEN"),
    )
)
SUFFIX = "_FILE"
_SECRET_BYTES_MAX = 65_536


def take_secrets(environment: MutableMapping[str, str]) -> None:
    """Put what such files have into the variables that they stand for, and take the names of the files out.

    The end of the last line does not belong to a secret.

    Raises DeployError when a file cannot be read, or the variable is set, too.
    """
    for variable in SECRETS:
        file = environment.pop(variable + SUFFIX, "")
        if not file:
            continue
        if environment.get(variable):
            raise DeployError("bad_setting", f"{variable} and {variable}{SUFFIX} are both set; one of them is enough.")
        environment[variable] = _secret_in(variable + SUFFIX, Path(file))


def _secret_in(variable: str, file: Path) -> str:
    if not file.is_absolute():  # another process reads it, from a folder of its own
        raise DeployError("bad_setting", f"{variable}: must be an absolute path.")
    try:
        with file.open("rb") as opened:
            kept = opened.read(_SECRET_BYTES_MAX + 1)
        text = kept.decode()
    except OSError as problem:
        raise DeployError("bad_setting", f"{variable}: {file} cannot be read ({problem.strerror}).") from None
    except UnicodeDecodeError:
        raise DeployError("bad_setting", f"{variable}: {file} is not UTF-8.") from None
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret or len(kept) > _SECRET_BYTES_MAX or any(mark in secret for mark in "\n\r\0"):
        raise DeployError("bad_setting", f"{variable}: {file} must hold one line that is not empty.")
    return secret
