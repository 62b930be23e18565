"""The form of a log record: one JSON object a line, `message` and the extras as keys. No I/O."""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from engramq.schemas.ids import format_time

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def quieten(*loggers: str) -> None:
    """Keep out what these libraries tell of each call, a line for a request; ours say what is worth knowing."""
    for name in loggers:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON. Of an exception it keeps class and place, not its text: that may quote content."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        entry: dict[str, Any] = {
            "time": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {key: value for key, value in record.__dict__.items() if key not in _STANDARD and key not in entry}
        if record.exc_info and record.exc_info[0] is not None:
            entry["exception"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            entry["trace"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(entry, default=str, ensure_ascii=False)
