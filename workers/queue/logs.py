"""Logging of a worker process: JSON lines on standard error."""

import logging
import sys

from engramq.schemas.logs import JsonFormatter, quieten
from engramq.telemetry.spans import NameSubject


def configure_logging(level: str) -> None:
    """Send records of this level and above to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(NameSubject())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    quieten("httpx")
