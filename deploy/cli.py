"""The `engramq` command: finds out which part of engramq a command belongs to, and imports no other.

`stdio` goes first and past everything else, because MCP clients wait for it.
"""

from __future__ import annotations

import sys

# Who provides a command; their `main(argv)` gets the command's name as argv[0] and returns the exit code.
GATEWAY_COMMANDS = frozenset({"gateway", "import", "purge"})
WORKER_COMMANDS = frozenset({"worker", "migrate", "audit", "token"})


def main() -> int:
    """Run the command in sys.argv and return its exit code."""
    arguments = sys.argv[1:]
    command = arguments[0] if arguments else ""
    if command == "stdio":
        from engramq.deploy.stdio import main as stdio  # noqa: PLC0415 - each command loads only what it needs

        return stdio(arguments[1:])
    if command in GATEWAY_COMMANDS or command in WORKER_COMMANDS:
        return _run_part(command, arguments)
    from engramq.deploy.commands import run  # noqa: PLC0415 - click takes 40 ms, which the others should not pay

    return run(arguments)


def _run_part(command: str, arguments: list[str]) -> int:
    from engramq.deploy.home import DeployError  # noqa: PLC0415 - see stdio
    from engramq.deploy.servers_for import servers_for  # noqa: PLC0415 - see stdio

    try:
        with servers_for(command, arguments):
            if command in GATEWAY_COMMANDS:
                from engramq.gateway.cli import main as gateway  # noqa: PLC0415 - 1 s of imports, and none of a worker's business

                return gateway(arguments)
            from engramq.workers.cli import main as workers  # noqa: PLC0415 - gateways must run without database and model

            return workers(arguments)
    except DeployError as error:
        sys.stderr.write(f"engramq: {error}\n")
        return 1
