"""A log record is one JSON line with its extras as keys, and never an exception's text."""

import json
import logging
import sys

from engramq.telemetry.spans import JsonFormatter, quieten


def formatted(record: logging.LogRecord) -> dict[str, object]:
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert isinstance(entry, dict)
    return entry


def a_record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("engramq.workers.graph.handlers", logging.INFO, __file__, 1, message, arguments, None)
    record.__dict__.update(extra)
    return record


def test_message_and_extras_are_keys() -> None:
    entry = formatted(a_record("Edge reclassified", edge_id="e", from_sector="semantic", actor="I/O"))
    assert {key: entry[key] for key in ("message", "edge_id", "from_sector", "actor", "level", "logger")} == {
        "message": "Edge reclassified",
        "edge_id": "e",
        "from_sector": "semantic",
        "actor": "I/O",
        "level": "INFO",
        "logger": "engramq.workers.graph.handlers",
    }
    assert str(entry["time"]).endswith("Z")


def test_arguments_are_put_into_the_message_and_odd_values_become_text() -> None:
    entry = formatted(a_record("%d jobs\nleft", 3, place=object, text="naïve\u2028"))
    assert entry["message"] == "3 jobs\nleft"
    assert entry["place"] == "<class 'object'>"
    assert entry["text"] == "naïve\u2028"


def test_an_extra_cannot_pose_as_the_records_own_fields() -> None:
    assert formatted(a_record("real", level="FAKE", time="never"))["level"] == "INFO"


def test_an_exception_is_told_by_class_and_place_only() -> None:
    record = a_record("failed")
    try:
        raise ValueError("secret content")
    except ValueError:
        record.exc_info = sys.exc_info()
    entry = formatted(record)
    assert entry["exception"] == "ValueError"
    assert "test_an_exception_is_told" in str(entry["trace"])
    assert "secret" not in json.dumps(entry)


def test_a_chatty_library_is_heard_only_when_something_is_wrong() -> None:
    quieten("chatty")
    assert not logging.getLogger("chatty").isEnabledFor(logging.INFO)
    assert logging.getLogger("chatty.part").isEnabledFor(logging.WARNING)
