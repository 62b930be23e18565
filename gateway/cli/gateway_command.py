"""The command line of `engramq gateway`."""

import logging
import os
from pathlib import Path

import anyio
import click

from engramq.gateway.run import run_gateway
from engramq.schemas.logs import JsonFormatter, quieten
from engramq.schemas.settings import read_settings


@click.command("gateway", help="Serve MCP over HTTP at ENGRAMQ_HOST and ENGRAMQ_PORT, or stdio fronts on a socket.")
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    help="Serve stdio fronts on this unix socket instead of HTTP.",
)
@click.option("--http", is_flag=True, help="Serve HTTP beside --socket too.")
def gateway_command(socket_path: Path | None, http: bool) -> None:
    settings = read_settings(os.environ)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    quieten("mcp", "uvicorn", "httpx")
    anyio.run(
        lambda: run_gateway(settings, socket_path=socket_path, http=http or socket_path is None),
        backend_options={"use_uvloop": os.name != "nt"},
    )
