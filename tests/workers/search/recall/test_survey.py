"""What a survey makes of memories: groups, texts within their share, in whole words."""

import time
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from engramq.schemas.commands import SearchMemories, SurveyMemories
from engramq.schemas.limits import EXTRACT_CHARS
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import SurveyOrder
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.search.candidates import Filters
from engramq.workers.search.counts import (
    COUNT_S,
    READ_CHARS,
    READ_WORDS,
    TopicCounts,
    asks_for_all,
    count_named,
    naming_of,
)
from engramq.workers.search.handlers import SearchFindings, call_for_more
from engramq.workers.search.search import SearchResult
from engramq.workers.search.survey import PAGE_CHARS, UNCOUNTED, _survey, extracts_of, fold, page_of

pytestmark = pytest.mark.promise("PR-5")

SINCE = datetime(2026, 1, 5, 9, tzinfo=UTC)
WORDS = ("ada", "boat", "tea", "never", "7", "lyon", "porto", "x" * 40)
CONTENTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(" ".join), min_size=1, max_size=45)


def _memories(contents: list[str]) -> list[Memory]:
    at = "2026-01-05T09:00:00.000000Z"
    return [
        Memory(id=f"{number:032x}", content=content, created_by="ada", created_at=at, updated_at=at, thread="t")
        for number, content in enumerate(contents)
    ]


@given(CONTENTS)
def test_each_memory_is_in_one_group_and_texts_stay_within_their_page(contents: list[str]) -> None:
    memories = _memories(contents)
    groups = fold(memories)
    assert sorted(memory.id for group in groups for memory in group) == [memory.id for memory in memories]
    extracts = extracts_of(page_of("tea of Ada", groups[:40], SurveyOrder.RELEVANCE))
    assert [extract.id for extract in extracts] == [group[0].id for group in groups[: len(extracts)]]
    assert all(0 < len(extract.text) <= EXTRACT_CHARS for extract in extracts)
    assert sum(len(extract.text) for extract in extracts) <= PAGE_CHARS
    assert [extract.thread for extract in extracts[:1]] == ["t"]


def test_numbers_and_negations_are_no_duplicates() -> None:
    said = "the meeting of the billing team with all of the people from Lyon and Porto starts at nine on Monday"
    groups = fold(_memories([said, f"{said}.", said.replace("starts", "never starts"), f"{said} 7"]))
    assert [len(group) for group in groups] == [2, 1, 1]


@pytest.mark.promise("KN-9")
def test_extracts_are_whole_sentences_of_which_fewer_fit() -> None:
    said = "The keel number {} came from Porto on a ship that had lost its mast, and cost {} euros with the transport."
    rest = "We spoke about the weather. It rained. Ada asked about the harbour, and Ben about the price of wood."
    contents = [f"{rest} {said.format(number, number * 7)} {rest}" for number in range(60)]
    page = page_of("keel from Porto", [[memory] for memory in _memories(contents)], SurveyOrder.TIME)
    assert [text for _, text in page] == [said.format(number, number * 7) for number in range(len(page))]
    assert 40 < len(page) < 60


@pytest.mark.promise("KN-6")
def test_the_day_on_which_a_memory_was_stored_is_one_of_the_zone() -> None:
    (memory,) = _memories(["Tea"])
    memory.created_at = "2026-01-05T20:00:00.000000Z"
    (extract,) = extracts_of([([memory], "Tea")], ZoneInfo("Asia/Tokyo"))
    assert extract.at == "2026-01-06"
    memory.occurred_at = memory.created_at
    (extract,) = extracts_of([([memory], "Tea")], ZoneInfo("Asia/Tokyo"))
    assert extract.at == "2026-01-05"


def test_totals_name_the_largest_and_count_the_rest() -> None:
    named = TopicCounts(Counter({"2026-01": 10}), Counter({f"thread {number}": 1 for number in range(10)}), found=4)
    totals = named.totals(7)
    assert (totals.named, totals.near, totals.by_month, totals.threads_omitted) == (10, 3, {"2026-01": 10}, 2)


@pytest.mark.promise("KN-10")
@pytest.mark.parametrize(
    ("topic", "every", "one"),
    [
        ("Hassan", ["Hassan"], []),
        ("What do you know about Ingrid Solberg?", ["Ingrid", "Solberg"], []),
        ("films I watched with Ada", ["Ada"], ["films", "watched"]),
        ("films i watched with ada", ["films", "ada"], []),
        ("What did we decide about ENG-417?", ["ENG-417"], []),
        ("Ada's keys", ["keys", "Ada"], []),
        ("tests of src/billing/charge.py", ["src/billing/charge.py"], ["tests"]),
        ("Everything. FastAPI, please", ["FastAPI"], []),
        ("Tell me everything", ["Tell", "me", "everything"], []),
        ("?!", [], []),
    ],
)
def test_the_words_that_name_a_topic_are_told_from_those_of_asking(
    topic: str, every: list[str], one: list[str]
) -> None:
    naming = naming_of(topic)
    assert (sorted(naming.all), naming.one) == (sorted(every), one)


@pytest.mark.promise("KN-10")
def test_of_a_long_topic_the_beginning_alone_is_read() -> None:
    for text in ("a " * 16_000, "Then Ada went to Porto by boat. " * 1_000, ". " + " " * 1_000 + "a " * 15_000):
        assert naming_of(text + "Ingrid") == naming_of(text[:READ_CHARS])
        assert not asks_for_all(text + "who is Ingrid")
    assert len(naming_of("a " * 16_000).all) < READ_WORDS
    assert naming_of("a " * (READ_WORDS - 1) + "Ada").all == ["Ada"]
    assert "Ada" not in naming_of("a " * READ_WORDS + "Ada").all
    assert naming_of("keys. \u201c Ada saw Ben").all == ["Ben"]


@pytest.mark.promise("KN-1")
@pytest.mark.parametrize(
    ("given", "beyond", "call"),
    [
        ({}, 2, 'search_memories(query="zebra", limit=7)'),
        ({"limit": 20}, 2, 'search_memories(query="zebra", limit=22)'),
        ({"tags": ("a",), "since": SINCE}, 2,
         'search_memories(query="zebra", limit=7, tags=["a"], since="2026-01-05T09:00:00Z")'),
        ({"tags": ("a",), "thread": "t", "min_relevance": 0.1}, 60,
         'survey_memories(topic="zebra", thread="t", tags=["a"])'),
        ({"project_only": True}, 60, 'search_memories(query="zebra", limit=50, project_only=true)'),
    ],
)  # fmt: skip
def test_a_call_for_more_shows_no_less_and_keeps_the_filters(given: dict[str, Any], beyond: int, call: str) -> None:
    assert call_for_more(SearchMemories(query="zebra", **given), "zebra", beyond, is_listed=True) == call


@pytest.mark.promise("KN-10")
async def test_a_count_that_takes_too_long_is_left_out() -> None:
    class Slow:
        async def limit_statements(self, seconds: float) -> None:
            assert seconds <= COUNT_S

        async def rows(self, _query: str, **values: Any) -> list[Any]:
            assert values["zone"] == "Europe/Berlin"
            raise StatementTimeout

    async def read(_namespace: str, work: Any) -> Any:
        return await work(Slow())

    context: Any = SimpleNamespace(
        envelope=SimpleNamespace(namespace="n"), store=SimpleNamespace(read=read), patience_s=9.0,
        since=time.monotonic(), settings=SimpleNamespace(timezone=ZoneInfo("Europe/Berlin")),
    )  # fmt: skip
    assert await count_named(context, "zebra", Filters(partitions=()), []) is None
    memories = _memories(["Zebra 1", "Tea"])
    search = SearchFindings(SearchResult(memories, "yes", named=1), UNSET, UNSET, None)
    reply = _survey(SurveyMemories(topic="zebra"), search, None, UTC, is_silent=False)
    assert (reply.totals.named, reply.totals.near, reply.notice) == (1, 1, UNCOUNTED)
