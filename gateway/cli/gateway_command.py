"""`engramq gateway`: MCP over HTTP and for stdio relays, until it is asked to stop."""

import logging
from functools import partial
from pathlib import Path

from engramq.gateway.cli.running import run
from engramq.gateway.run import run_gateway
from engramq.schemas.logs import JsonFormatter, quieten
from engramq.schemas.settings import Settings
from engramq.telemetry.subject import NameSubject


def serve(settings: Settings, *, socket_path: Path | None, http: bool) -> None:
    """Serve until SIGTERM or SIGINT. Raises SettingsError, CommandFailed."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(NameSubject())
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    quieten("mcp", "uvicorn", "httpx")
    run(partial(run_gateway, settings, socket_path=socket_path, http=http))
