"""Log records as JSON lines: `message`, and the extras as keys."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from schemas.ids import format_time

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """One JSON object per record; an exception's traceback goes to the log under `exception`, never to a client."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line = {
            "at": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # ASCII only: no raw control or bidirectional character reaches a terminal


def log_to_stderr(level: str) -> None:
    """Send every record of this process from `level` on to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
