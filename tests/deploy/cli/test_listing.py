"""What commands list is printed as it comes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engramq.deploy.cli import main, review


class Pages:
    """A gateway that gives two pages of pairs; `before` is what was printed when each was asked for."""

    def __init__(self, printed: pytest.CaptureFixture[str]) -> None:
        self._printed = printed
        self.before: list[str] = []

    def call(self, tool: str, asked: dict[str, Any]) -> dict[str, Any]:
        assert tool == "list_contradictions"
        self.before.append(self._printed.readouterr().out)
        number = len(self.before)
        pair = {"later": f"m-{number}b", "here": "at 7", "earlier": f"m-{number}a", "said": "at 6"}
        assert asked.get("cursor") == (None if number == 1 else "next")
        return {"status": "success", "pairs": [pair, pair], "next_cursor": "next" if number == 1 else None}


def test_pairs_are_printed_while_more_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = Pages(capsys)

    @contextmanager
    def door(_namespace: str | None) -> Iterator[Pages]:
        yield pages

    monkeypatch.setattr(review, "door", door)
    assert main(["contradictions", "--limit", "3"]) == 0
    first = "m-1b  at 7\n  m-1a  at 6\n"
    assert pages.before == ["", first * 2]
    assert capsys.readouterr().out == "m-2b  at 7\n  m-2a  at 6\n"


def test_where_nothing_disagrees_that_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Nothing:
        def call(self, _tool: str, _asked: dict[str, Any]) -> dict[str, Any]:
            return {"status": "success", "pairs": [], "next_cursor": None}

    @contextmanager
    def door(_namespace: str | None) -> Iterator[Nothing]:
        yield Nothing()

    monkeypatch.setattr(review, "door", door)
    assert main(["contradictions"]) == 0
    assert capsys.readouterr() == ("", "No memories were seen to disagree.\n")
