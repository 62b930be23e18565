"""Replies in brief and in full, and the budget that all of them keep."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramq.gateway.mcp.tools import TOOLS
from engramq.gateway.rendering.brief import BRIEF_FORMS, BriefMemory
from engramq.gateway.rendering.budget import LEAST_CHARS, Body, text_of
from engramq.gateway.rendering.replies import body_of, bounded
from engramq.schemas import limits
from engramq.schemas.codec import reply_body
from engramq.schemas.commands import CommandReport, MemoryChanged, MemoryFound, MemoryList, Reply, Stored, Superseded
from engramq.schemas.ids import uuid7
from engramq.schemas.records import Link, Memory, Via
from engramq.schemas.vocabulary import (
    Detail,
    Direction,
    MemorySource,
    MemoryState,
    Origin,
    Partition,
    Sector,
    SectorSource,
    Verification,
)
from tests.gateway.replies import check_reply

ME = "me"
AT = "2026-01-31T09:00:00.123456Z"
LONG = "The lighthouse keeper wrote every evening. " * 760  # 32,680 characters
# What brief leaves out because full alone has it.
FULL_ALONE = {"usefulness", "accessed_at", "score"}


def memory(content: str = "Ada prefers tea", **fields: Any) -> Memory:
    usual = {"created_by": ME, "created_at": AT, "updated_at": AT, "state": MemoryState.ACTIVE}
    return Memory(id=uuid7(), content=content, **{**usual, **fields})


def a_link(note: str | None = None) -> Link:
    return Link(
        memory_id=uuid7(),
        relation="supports",
        weight=0.75,
        note=note,
        origin=Origin.AGENT,
        direction=Direction.OUTGOING,
        reinforcement_count=1,
    )


def brief(reply: Reply, caller: str = ME) -> Body:
    return body_of(reply, Detail.BRIEF, caller)


def in_brief(one: Memory, caller: str = ME) -> dict[str, Any]:
    found: dict[str, Any] = brief(MemoryList(memories=[one], count=1), caller)["memories"][0]
    return found


@pytest.mark.promise("AG-1")
def test_a_memory_in_brief_has_what_says_something() -> None:
    plain = memory(score=1.5, similarity=0.51234, usefulness=0.7, accessed_at=AT)
    assert in_brief(plain) == {
        "id": plain.id,
        "content": "Ada prefers tea",
        "confidence": 1.0,
        "created_at": "2026-01-31T09:00:00Z",
        "similarity": 0.51,
    }
    assert "similarity" not in in_brief(memory(similarity=None))
    assert in_brief(memory(), "somebody else")["created_by"] == ME
    later = "2026-01-31T09:00:00.123457Z"
    assert in_brief(memory(updated_at=later))["updated_at"] == later


@pytest.mark.promise("AG-1")
def test_nothing_is_lost_in_brief_that_the_reader_could_not_put_back() -> None:
    unusual: dict[str, Any] = {
        "external_id": "e-1",
        "confidence": 0.4,
        "source": MemorySource.EXPLICIT,
        "source_type": "research",
        "speaker": "Ada",
        "occurred_at": AT,
        "thread": "t",
        "position": 0,
        "sector": Sector.EPISODIC,
        "sector_source": SectorSource.MANUAL,
        "partition": Partition.UNTRUSTED,
        "verification": Verification.VERIFIED,
        "state": MemoryState.ARCHIVED,
        "supersedes": uuid7(),
        "superseded_by": uuid7(),
        "promoted_at": AT,
        "promoted_by": "bob",
        "metadata": {"a": None},
        "created_by": "bob",
        "updated_at": "2026-02-01T09:00:00.000000Z",
        "similarity": 0.25,
        "via": Via(memory_id=uuid7(), relation="supports", weight=0.5),
        "explain": {"words": 1.0},
        "untrusted": True,
        "warning": "read it as data",
    }
    one = memory(**unusual, score=1.0, usefulness=0.9, accessed_at=AT)
    whole = reply_body(MemoryList(memories=[one], count=1))["memories"][0]
    found = in_brief(one)
    assert found.pop("created_at") == "2026-01-31T09:00:00Z"
    assert found == {name: value for name, value in whole.items() if name not in FULL_ALONE | {"created_at"}}
    assert set(whole) - set(found) == FULL_ALONE | {"created_at"}
    # A field that is new in a memory is in brief too, or said above to be in full alone.
    assert set(Memory.__struct_fields__) - set(BriefMemory.__struct_fields__) == FULL_ALONE


@pytest.mark.promise("AG-3")
def test_writes_repeat_nothing() -> None:
    content, said = "the secret of the lighthouse", {"key": "the secret in metadata"}
    own, twin = memory(content, metadata=said), memory(f"{content} " * 40, metadata=said, similarity=0.987)
    stored = brief(Stored(stored=own, similar_memories=[twin], command_id="c"))
    assert stored["stored"] == {"id": own.id}
    (similar,) = stored["similar_memories"]
    assert set(similar) == {"id", "preview", "similarity"}
    assert (similar["id"], similar["similarity"]) == (twin.id, 0.99)
    assert similar["preview"].endswith("…")
    assert len(similar["preview"]) <= limits.PREVIEW_CHARS
    updated = brief(MemoryChanged(status="updated", memory=own, command_id="c"))
    assert "secret" not in text_of(updated)
    assert {"id", "confidence", "created_at"} <= set(updated["memory"])


@pytest.mark.promise("AG-3")
def test_a_store_says_what_the_pipeline_decided_otherwise() -> None:
    pending = brief(Stored(stored=memory(state=MemoryState.PENDING), degraded=True, command_id="c"))
    assert (pending["stored"]["state"], pending["degraded"]) == ("pending", True)


@pytest.mark.promise("AG-18")
@pytest.mark.parametrize("detail", Detail)
def test_an_untrusted_store_says_that_searches_do_not_show_it(detail: Detail) -> None:
    kept_apart = memory(partition=Partition.UNTRUSTED)
    body = body_of(Stored(stored=kept_apart, command_id="c"), detail, ME)
    assert body["stored"]["partition"] == "untrusted"
    assert "searches and lists do not show it" in body["notice"]
    assert "partitions" in body["notice"]
    assert "memory_promote_to_trusted" in body["notice"]
    assert "notice" not in body_of(Stored(stored=memory(), command_id="c"), detail, ME)


@pytest.mark.promise("AG-6")
def test_full_replies_are_whole() -> None:
    reply = Stored(stored=memory(LONG), similar_memories=[memory(similarity=0.9)], command_id="c")
    assert body_of(reply, Detail.FULL, ME) == reply_body(reply)


@pytest.mark.promise("AG-1")
def test_a_recorded_reply_is_rendered_as_the_first_was() -> None:
    one = memory(LONG)
    for reply in (
        Stored(stored=one, similar_memories=[memory(similarity=0.9)], command_id="c"),
        Superseded(old=one, new=memory(), command_id="c"),
        MemoryChanged(status="restored", memory=one, command_id="c"),
    ):
        report = CommandReport(status="done", reply=reply_body(reply))  # type: ignore[arg-type]
        assert brief(report) == {"status": "done", "reply": brief(reply)}
        assert body_of(report, Detail.FULL, ME)["reply"] == reply_body(reply)
    strange = CommandReport(status="done", reply={"status": "stored", "of": "another version"})  # type: ignore[arg-type]
    assert brief(strange)["reply"] == {"status": "stored", "of": "another version"}


def test_every_reply_with_memories_has_a_brief_form() -> None:
    for tool in TOOLS.values():
        kinds = [field.type for reply in tool.replies for field in msgspec.structs.fields(reply)]
        holds_memories = any(kind in (Memory, Memory | None, list[Memory]) for kind in kinds)
        assert bool(set(tool.replies) & set(BRIEF_FORMS)) == holds_memories, tool.name
        assert tool.detailed == holds_memories or tool.name == "get_command"


CONTENTS = st.text(st.sampled_from('ab \n"\\\u0001ä🦆'), min_size=1, max_size=4_000)
MEMORIES = st.builds(
    memory,
    CONTENTS,
    metadata=st.dictionaries(st.text(max_size=3), st.text(max_size=3_000), max_size=2),
    speaker=st.none() | st.text(min_size=1, max_size=255),
    thread=st.none() | st.text(min_size=1, max_size=255),
    similarity=st.none() | st.floats(0, 1),
)
REPLIES = st.one_of(
    st.builds(
        lambda found: ("search_memories", MemoryList(memories=found, count=len(found))), st.lists(MEMORIES, max_size=8)
    ),
    st.builds(
        lambda one, near: ("store_memory", Stored(stored=one, similar_memories=near, command_id=uuid7())),
        MEMORIES,
        st.lists(MEMORIES, max_size=5),
    ),
    st.builds(
        lambda one, notes: (
            "get_memory",
            MemoryFound(memory=one, links=[a_link(note) for note in notes], status="success"),
        ),
        MEMORIES,
        st.lists(st.none() | st.text(min_size=1, max_size=2_000), max_size=12),
    ),
    st.builds(
        lambda old, new: ("supersede_memory", Superseded(old=old, new=new, command_id=uuid7())), MEMORIES, MEMORIES
    ),
    st.builds(lambda one: ("update_memory", MemoryChanged(status="updated", memory=one, command_id=uuid7())), MEMORIES),
)


@pytest.mark.promise("AG-4", "AG-6")
@settings(max_examples=150, deadline=None)
@given(REPLIES, st.sampled_from(Detail), st.integers(limits.REPLY_CHARS_MIN, 20_000))
def test_no_reply_is_longer_than_its_budget_and_nothing_goes_in_silence(
    asked: tuple[str, Any], detail: Detail, budget: int
) -> None:
    tool, reply = asked
    whole = body_of(reply, detail, ME)
    body = json.loads(text_of(whole))
    text = bounded(body, budget)
    assert len(text) <= budget
    assert json.loads(text) == body
    check_reply(tool, body, is_error=False)
    if len(text_of(whole)) <= budget:
        assert body == whole
        return
    assert body["rest"]
    gone = text_of(body)
    assert '"truncated":true' in gone or '"omitted":' in gone or '"omitted_fields":' in gone
    for name in ("memories", "similar_memories", "links"):
        if name in whole:
            assert len(body[name]) + body.get("omitted", 0) == len(whole[name]) or not whole[name]
    if "count" in body:
        assert body["count"] == len(body["memories"])


@pytest.mark.promise("AG-4")
def test_contents_are_cut_at_a_word_and_share_what_room_there_is() -> None:
    body = brief(MemoryList(memories=[memory(LONG), memory("short"), memory(LONG)], count=3))
    text = bounded(body, 8_000)
    first, short, last = body["memories"]
    assert (short["content"], "truncated" in short) == ("short", False)
    assert first["truncated"] is last["truncated"] is True
    assert len(first["content"]) == len(last["content"]) > 3_000
    assert LONG.startswith(f"{first['content']} ")
    assert 7_900 < len(text) <= 8_000
    assert "omitted" not in body
    assert "max_chars=68000" in body["rest"]


@pytest.mark.promise("AG-4")
def test_the_end_of_a_list_goes_before_its_contents_say_nothing_any_more() -> None:
    body = brief(MemoryList(memories=[memory(LONG) for _ in range(50)], count=50))
    bounded(body, 8_000)
    assert body["count"] == len(body["memories"]) == 50 - body["omitted"]
    assert 15 < body["count"] < 25
    assert all(len(one["content"]) >= LEAST_CHARS * 2 // 3 for one in body["memories"])


@pytest.mark.promise("AG-4")
def test_metadata_goes_before_hits_do() -> None:
    hits = [memory(metadata={"log": "x" * 60_000}), memory(metadata={"a": 1})]
    body = brief(MemoryList(memories=hits, count=2))
    bounded(body, 8_000)
    assert body["memories"][0]["omitted_fields"] == ["metadata"]
    assert body["memories"][1]["metadata"] == {"a": 1}
    assert body["count"] == 2


@pytest.mark.promise("AG-4")
def test_what_is_left_out_can_be_had() -> None:
    stored = body_of(Stored(stored=memory(LONG), command_id="c-1"), Detail.FULL, ME)
    bounded(stored, 8_000)
    assert stored["rest"] == 'get_command(command_id="c-1", max_chars=34000) shows it all.'
    report = {"status": "done", "reply": body_of(Stored(stored=memory(LONG), command_id="c-1"), Detail.FULL, ME)}
    bounded(report, 8_000)
    assert "Repeat the call with max_chars=34000." in str(report["reply"])
    assert len(bounded(body_of(Stored(stored=memory(LONG), command_id="c"), Detail.FULL, ME), 34_000)) > len(LONG)
