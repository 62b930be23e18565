"""The command line of what goes over the queue: `main` runs one subcommand and returns its exit code."""

import importlib
import sys
from typing import Final

from engramq.schemas.connection import UnsupportedServer
from engramq.schemas.settings import SettingsError

BAD_SETTING: Final = 2

# Loaded when they are run: the gateway answers its first client sooner without what imports need, and the reverse.
_COMMANDS: Final = {
    "gateway": ("engramq.gateway.cli.gateway_command", "gateway_command"),
    "import": ("engramq.gateway.cli.import_command", "import_command"),
    "purge": ("engramq.gateway.cli.purge_command", "purge_command"),
}


def main(argv: list[str]) -> int:
    """Run the subcommand that `argv` begins with and return its exit code; 2 says that it was called or set wrongly."""
    module, name = _COMMANDS[argv[0]]
    command = getattr(importlib.import_module(module), name)
    try:
        command.main(args=argv[1:], prog_name=f"engramq {argv[0]}")
    except (SettingsError, UnsupportedServer) as problem:
        print(f"engramq {argv[0]}: {problem}", file=sys.stderr)
        return BAD_SETTING
    except SystemExit as end:  # how click ends
        return end.code if isinstance(end.code, int) else 0
    return 0
