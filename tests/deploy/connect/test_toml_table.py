"""One table in a TOML text is changed, and every other value stays: however the text writes its tables."""

import tomllib
from typing import Any

import pytest

from engramq.deploy.connect.configuration import with_table, without_table
from engramq.deploy.connect.files import Unchangeable

pytestmark = pytest.mark.promise("RC-4")

PATH = ("mcp_servers", "engramq")
ENTRY: dict[str, Any] = {"command": "/a b/engramq", "args": ["stdio"], "env": {"ENGRAMQ_HOME": "/home"}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "x"\n',
        "[mcp_servers]\n",
        'mcp_servers = {zed = {command = "z"}} # on one line\n',
        'mcp_servers = {engramq = {command = "old"}, zed = {command = "z"}}\n',
        'mcp_servers.zed.command = "z"\n',
        "[mcp_servers.a]\nx = 1\n[other]\ny = 2\n[mcp_servers.engramq]\nz = 1\n[mcp_servers.b]\nx = 1\n",
        '[mcp_servers.engramq.env]\nOLD = "1"\n[mcp_servers.zed]\ncommand = "z"\n',
        '["mcp_servers".\'engramq\']\ncommand = "old"\n',
    ],
)
def test_the_table_comes_in_and_out_and_all_else_stays(text: str) -> None:
    others = tomllib.loads(text).get("mcp_servers", {})
    others.pop("engramq", None)
    rest = {name: value for name, value in tomllib.loads(text).items() if name != "mcp_servers"}
    there = with_table(text, PATH, ENTRY)
    assert tomllib.loads(there) == {**rest, "mcp_servers": {**others, "engramq": ENTRY}}
    assert with_table(there, PATH, ENTRY) == there
    assert tomllib.loads(without_table(there, PATH)) == {**rest, **({"mcp_servers": others} if others else {})}


def test_what_would_become_part_of_the_table_is_not_written() -> None:
    """Behind dotted keys there is no place for a table but the end, which tomlkit does not take."""
    with pytest.raises(Unchangeable, match="make it a table"):
        with_table('mcp_servers.zed.command = "z"\nmodel = "x"\n[tui]\ntheme = "dark"\n', PATH, ENTRY)
