"""What the providers make of a conversation: one set of cases, whatever language a provider is written in."""

import json
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("turns.json")
CASES: Final[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
LONG: Final = CASES["long"]


def expected(agent: str, key: str) -> dict[str, Any]:
    """Return what the provider for an agent makes of the cases, the turns known by this key."""
    shared = {"partition": "untrusted", "source_type": "conversation", "tags": ["captured", agent]}
    return {
        "without_recalled": [left for _, left in CASES["without_recalled"]],
        "harmless": [line for _, line in CASES["harmless"]],
        "recalled": [case["lines"] for case in CASES["recalled"]],
        "long": [f"{(LONG['word'] * LONG['shown_words']).strip()} ..."],
        "rows": [
            [{**row, **shared, "external_id": f"{agent}:{key}:{row['speaker']}"} for row in case["rows"]]
            for case in CASES["rows"]
        ],
    }


def lines_of(told: str | None) -> list[str]:
    """Return the memories in what is told, without what stands around them."""
    return [line.removeprefix("- ") for line in (told or "").splitlines()[2:-1]]


def without_thread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without their thread, which each provider calls as its agent calls its sessions."""
    return [{name: value for name, value in row.items() if name != "thread"} for row in rows]
