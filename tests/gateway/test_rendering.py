"""Replies in brief and in full, and the budget that all of them keep."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from engramq.gateway import budget
from engramq.gateway.brief import BriefMemory, brief_of, withhold_contents
from engramq.gateway.budget import LEAST_CHARS, Body, fit_to_budget
from engramq.gateway.replies import body_of, cut_to_part, items_of, notice_of, rest_of, rest_of_items, tell_next
from engramq.gateway.service import to_body
from engramq.schemas import limits
from engramq.schemas.codec import reply_body, text_of
from engramq.schemas.commands import (
    TOOLS,
    BreadcrumbTrail,
    CommandReport,
    EdgeAdded,
    MemoryChanged,
    MemoryFound,
    MemoryList,
    Neighbors,
    PathReport,
    Reply,
    Stored,
    StoreMemory,
    Superseded,
)
from engramq.schemas.digests import digest_of
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import uuid7
from engramq.schemas.passages import Passages, words_of
from engramq.schemas.records import (
    Crossing,
    Link,
    Memory,
    MemoryPreview,
    Neighbor,
    NodeRef,
    PathEdge,
    ReferencedMemory,
    Via,
)
from engramq.schemas.vocabulary import (
    CommandStatus,
    Detail,
    Direction,
    MemorySource,
    MemoryState,
    Origin,
    Partition,
    Sector,
    SectorSource,
    StandingSource,
    Verification,
)
from tests.gateway.any_replies import ASKED, AT, LONG, ME, REPLIES, memory
from tests.gateway.replies import check_reply

# What brief leaves out because full alone has it.
FULL_ALONE = {"usefulness", "accessed_at", "score"}


def cut(tool: str, body: Body, most: int) -> str:
    return fit_to_budget(body, most, lambda needed: rest_of(TOOLS[tool], body, is_full=False, needed=needed))


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
        "created_at": "2026-01-31T09:00:00Z",
        "similarity": 0.51,
    }
    assert "similarity" not in in_brief(memory(similarity=None))
    told = memory(sector=Sector.EPISODIC, sector_source=SectorSource.AUTO, sector_confidence=0.7)
    assert {"sector_source", "sector_confidence"} & set(in_brief(told)) == set()
    talk = in_brief(memory(sector_source=SectorSource.NONE, sector_confidence=0.91))
    assert (talk["sector_source"], "sector" in talk, "sector_confidence" in talk) == ("none", False, False)
    assert in_brief(memory(), "somebody else")["created_by"] == ME
    later = "2026-01-31T09:00:00.123457Z"
    assert in_brief(memory(updated_at=later))["updated_at"] == later


@pytest.mark.promise("AG-1")
def test_nothing_is_lost_in_brief_that_the_reader_could_not_put_back() -> None:
    unusual: dict[str, Any] = {
        "external_id": "e-1", "confidence": 0.4, "source": MemorySource.EXPLICIT, "source_type": "research",
        "speaker": "Ada", "occurred_at": AT, "thread": "t", "position": 0, "sector": Sector.EPISODIC,
        "sector_source": SectorSource.NONE, "sector_confidence": 0.69, "partition": Partition.UNTRUSTED,
        "verification": Verification.VERIFIED, "state": MemoryState.ARCHIVED, "valid_from": AT, "valid_until": AT,
        "expires_at": AT, "supersedes": uuid7(), "superseded_by": uuid7(), "superseded_at": AT, "promoted_at": AT,
        "promoted_by": "bob", "tags": ["a", "b"], "project": "p", "metadata": {"a": None},
        "evidence": [{"path": "a.py", "state": "changed"}], "created_by": "bob",
        "updated_at": "2026-02-01T09:00:00.000000Z", "similarity": 0.25, "relevance": 0.07,
        "via": Via(memory_id=uuid7(), relation="supports", weight=0.5), "explain": {"words": 1.0},
        "relevance_of": {"words": 0.05}, "untrusted": True, "warning": "read it as data",
    }  # fmt: skip
    one = memory(**unusual, score=1.0, usefulness=0.9, accessed_at=AT)
    one.digest = digest_of(one)
    whole = reply_body(MemoryList(memories=[one], count=1))["memories"][0]
    whole = {name: value for name, value in whole.items() if value is not None}  # what is left out reads as null
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
    assert {"id", "created_at"} <= set(updated["memory"])


@pytest.mark.promise("AG-3")
def test_a_store_says_what_the_pipeline_decided_otherwise() -> None:
    pending = brief(Stored(stored=memory(state=MemoryState.PENDING), degraded=True, command_id="c"))
    assert (pending["stored"]["state"], pending["degraded"]) == ("pending", True)
    wish = brief(Stored(stored=memory(standing=True, standing_source=StandingSource.GIVEN), command_id="c"))
    assert wish["stored"].items() >= {"standing": True, "standing_source": "given"}.items()


@pytest.mark.promise("AG-18")
def test_a_store_says_that_searches_do_not_show_it_where_nobody_asked_for_that() -> None:
    apart = Stored(stored=memory(partition=Partition.UNTRUSTED), command_id="c")
    trusted, untrusted = Principal(name=ME), Principal(name=ME, untrusted=True)
    routed = notice_of(apart, StoreMemory(content="x", source_type="web"), trusted)
    assert routed is not None
    for said in ("searches and lists do not show it", "partitions", "memory_promote_to_trusted"):
        assert said in routed
    asked = StoreMemory(content="x", partition=Partition.UNTRUSTED)
    assert notice_of(apart, asked, trusted) is None
    told = notice_of(apart, StoreMemory(content="x"), untrusted)
    assert told is not None
    assert "memory_promote_to_trusted" not in told
    assert notice_of(Stored(stored=memory(), command_id="c"), StoreMemory(content="x"), trusted) is None


@pytest.mark.promise("AG-6")
def test_full_replies_are_whole() -> None:
    stored, similar = memory(LONG), memory(similarity=0.9)
    body = body_of(Stored(stored=stored, similar_memories=[similar], command_id="c"), Detail.FULL, ME)
    stored.digest, similar.digest = digest_of(stored), digest_of(similar)
    assert body == reply_body(Stored(stored=stored, similar_memories=[similar], command_id="c"))


@pytest.mark.promise("TP-29")
def test_what_waits_for_a_verdict_is_shown_with_its_digest() -> None:
    own, apart = memory("Ada prefers tea"), memory("Tea is blue", partition=Partition.UNTRUSTED)
    assert "digest" not in in_brief(own), "what is trusted already waits for nobody, and hits would cost more"
    assert in_brief(apart)["digest"] == digest_of(apart)
    updated = brief(MemoryChanged(status="updated", memory=apart, command_id="c"))["memory"]
    assert "digest" not in updated, "its content is not shown"
    body, _ = withhold_contents(brief_of(MemoryChanged(status="restored", memory=apart, command_id="c"), ME))
    assert "digest" not in msgspec.to_builtins(body)["memory"], "nor is it to who may not read"


@pytest.mark.promise("TP-29")
def test_what_is_not_shown_whole_has_no_digest() -> None:
    long, short = memory(LONG, partition=Partition.UNTRUSTED), memory("Tea", partition=Partition.UNTRUSTED)
    body = brief(MemoryList(memories=[long, short], count=2))
    text = json.loads(cut("list_recent_memories", body, 4_000))
    assert [("digest" in shown, shown.get("truncated", False)) for shown in text["memories"]] == [
        (False, True),
        (True, False),
    ]
    wordy = memory("Tea", partition=Partition.UNTRUSTED, metadata={"a": "b" * 4_000})
    (shown,) = json.loads(cut("list_recent_memories", brief(MemoryList(memories=[wordy], count=1)), 2_000))["memories"]
    assert (shown["omitted_fields"], "digest" in shown) == (["metadata"], False)


@pytest.mark.promise("AG-1")
def test_a_recorded_reply_is_rendered_as_the_first_was() -> None:
    one = memory(LONG)
    for reply in (
        Stored(stored=one, similar_memories=[memory(similarity=0.9)], command_id="c"),
        Superseded(old=one, new=memory(), command_id="c"),
        MemoryChanged(status="restored", memory=one, command_id="c"),
    ):
        report = CommandReport(status=CommandStatus.DONE, reply=reply_body(reply))
        assert brief(report) == {"status": "done", "reply": brief(reply)}
        assert body_of(report, Detail.FULL, ME)["reply"] == body_of(reply, Detail.FULL, ME)
    strange = CommandReport(status="done", reply={"status": "stored", "of": "another version"})  # type: ignore[arg-type]
    assert brief(strange)["reply"] == {"status": "stored", "of": "another version"}


def plain(reply: Any, detail: Detail) -> Body:
    return to_body(reply) if isinstance(reply, BreadcrumbTrail) else body_of(reply, detail, ME)


def test_every_tool_with_a_budget_is_tried() -> None:
    assert set(REPLIES) == {name for name, tool in TOOLS.items() if tool.bounded}


@pytest.mark.promise("AG-4", "AG-6")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(ASKED, st.sampled_from(Detail), st.sampled_from([500, 600, 900]) | st.integers(500, 20_000))
def test_no_reply_is_longer_than_its_budget_and_nothing_goes_in_silence(
    asked: tuple[str, Any], detail: Detail, most: int
) -> None:
    tool, reply = asked
    whole = plain(reply, detail)
    body = json.loads(text_of(whole))
    text = cut(tool, body, most)
    assert len(text) <= most
    assert json.loads(text) == body
    check_reply(tool, body, is_error=False)
    if len(text_of(whole)) <= most:
        assert body == whole
        return
    shown, given = body.get("reply") or body, whole.get("reply") or whole
    assert all(int(chars) <= limits.ADVISED_CHARS for chars in re.findall(r"max_chars=(\d+)", shown["rest"]))
    assert shown["rest"]
    gone = text_of(body)
    assert any(f'"{mark}":' in gone for mark in ("truncated", "omitted", "omitted_fields", "more_edges"))
    lists = [name for name, value in given.items() if isinstance(value, list)]
    assert sum(len(shown[name]) for name in lists) + shown.get("omitted", 0) == sum(len(given[name]) for name in lists)
    if given.get("memories"):
        assert shown["count"] == len(shown["memories"]) >= 1  # so that there is a place from which to go on


@pytest.mark.promise("AG-4", "AG-6")
def test_an_edge_whose_words_are_short_fits_without_its_nulls() -> None:
    edge = EdgeAdded(
        edge_id=uuid7(), created=True, source_id=uuid7(), target_id=uuid7(), relation='00000000"\x1f\x07\x07',
        weight=0.7950254286882847, memory_sector=Sector.PROCEDURAL, properties={"since": "x" * 90}, command_id=uuid7(),
        resolved_references={"@last": ReferencedMemory(id=uuid7())},
    )  # fmt: skip
    report = CommandReport(status=CommandStatus.DONE, reply=reply_body(edge))
    body = json.loads(text_of(body_of(report, Detail.FULL, ME)))
    assert len(cut("get_command", body, 500)) <= 500
    check_reply("get_command", body, is_error=False)
    assert body["reply"]["relation"] == edge.relation
    assert {"valid_from", "valid_until"} <= set(body["reply"]["omitted_fields"])


@pytest.mark.promise("AG-4", "AG-6")
def test_an_edge_of_a_path_is_whole_or_goes() -> None:
    edge = PathEdge(
        edge_id=uuid7(), source_id=uuid7(), target_id=uuid7(), relation="supports", weight=0.7950254286882847,
        memory_sector=Sector.EMOTIONAL, direction=Direction.OUTGOING,
    )  # fmt: skip
    path = PathReport(
        path_found=False, path_length=None, nodes=[], edges=[edge, edge], total_weight=0.9971636190492472,
        truncated=False,
    )  # fmt: skip
    body = json.loads(text_of(plain(path, Detail.BRIEF)))
    assert len(cut("graph_find_path", body, 500)) <= 500
    check_reply("graph_find_path", body, is_error=False)
    assert (body["edges"], body["omitted"]) == ([], 2)
    assert body["rest"]


@pytest.mark.promise("AG-4")
@pytest.mark.parametrize("most", [500, 1_000, 2_000, 4_000, 8_000])
def test_many_edges_to_one_neighbour_leave_room_for_the_others(most: int) -> None:
    def neighbor(edges: int) -> Neighbor:
        crossings = [
            Crossing(edge_id=uuid7(), relation=f"R{number}", weight=1.0, direction=Direction.OUTGOING)
            for number in range(edges)
        ]
        return Neighbor(
            node_id=uuid7(), label="Entity", name="Ada", distance=1, edge_id=crossings[0].edge_id, relation="R0",
            weight=1.0, memory_sector=Sector.SEMANTIC, direction=Direction.OUTGOING, relevance=1.0, properties={},
            edges=crossings,
        )  # fmt: skip

    start = NodeRef(node_id=uuid7(), label="Entity", name="Hub")
    several = Neighbors(start_node=start, neighbors=[neighbor(20), neighbor(1), neighbor(5)], count=3, truncated=False)
    body = plain(several, Detail.BRIEF)
    assert len(cut("graph_query_neighbors", body, most)) <= most
    check_reply("graph_query_neighbors", body, is_error=False)
    assert (body["count"], body.get("omitted", 0)) == ((0, 3) if most == 500 else (1, 2) if most == 1_000 else (3, 0))
    for shown, edges in zip(body["neighbors"], (20, 1, 5), strict=False):
        assert len(shown["edges"]) + shown.get("more_edges", 0) == edges
        assert shown["edges"][0]["relation"] == "R0"


@pytest.mark.promise("AG-4", "CL-5")
def test_what_is_cut_around_a_memory_is_not_said_to_stand_in_its_parts() -> None:
    links = [
        Link(memory_id=uuid7(), relation="similar", weight=0.5, note="because " * 240, origin=Origin.AGENT,
             direction=Direction.OUTGOING, reinforcement_count=0)
        for _ in range(10)
    ]  # fmt: skip
    around = "A larger max_chars, where the client shows so much, shows what is around it."
    for content, expected in (("short", around), (LONG, f"shows that part whole. {around}")):
        body = brief(MemoryFound(memory=memory(content), links=links, status="success"))
        body = cut_to_part(body, UNSET, 8_000)
        cut("get_memory", body, 8_000)
        assert body["rest"].endswith(expected)
        assert ("part=1" in body["rest"]) == (content == LONG)


@pytest.mark.promise("AG-4", "CL-2")
def test_an_edge_with_references_fits_into_the_smallest_budget() -> None:
    edge = EdgeAdded(
        edge_id=uuid7(),
        created=True,
        source_id=uuid7(),
        target_id=uuid7(),
        relation="\a" * 9,
        weight=0.5,
        memory_sector=Sector.EMOTIONAL,
        properties={},
        command_id=uuid7(),
        resolved_references={name: ReferencedMemory(id=uuid7()) for name in ("@stored", "@recalled[0]")},
    )
    body = json.loads(text_of(to_body(edge)))
    assert len(cut("graph_add_edge", body, 500)) <= 500
    assert "resolved_references" in body["omitted_fields"]


@pytest.mark.promise("AG-4")
def test_contents_are_cut_to_whole_sentences_and_share_what_room_there_is() -> None:
    body = brief(MemoryList(memories=[memory(LONG), memory("short"), memory(LONG)], count=3))
    text = cut("search_memories", body, 8_000)
    first, short, last = body["memories"]
    assert (short["content"], "truncated" in short) == ("short", False)
    assert first["truncated"] is last["truncated"] is True
    assert len(first["content"]) == len(last["content"]) > 3_000
    assert first["content"].endswith("every evening. ...")
    assert LONG.startswith(first["content"].removesuffix("..."))
    assert (first["part"], first["parts"], "passage" in first) == (1, 5, False)
    assert 7_800 < len(text) <= 8_000
    assert "omitted" not in body
    assert body["rest"].endswith("get_memory(memory_id, part) shows one whole, in parts.")


@pytest.mark.promise("AG-4")
def test_the_end_of_a_list_goes_before_its_contents_say_nothing_any_more() -> None:
    body = brief(MemoryList(memories=[memory(LONG) for _ in range(50)], count=50))
    cut("search_memories", body, 8_000)
    assert body["count"] == len(body["memories"]) == 50 - body["omitted"]
    assert 15 < body["count"] < 25
    assert all(len(item["content"]) >= LEAST_CHARS * 2 // 3 for item in body["memories"])


@pytest.mark.promise("AG-4")
def test_metadata_goes_before_hits_do() -> None:
    hits = [memory(metadata={"log": "x" * 60_000}), memory(metadata={"a": 1})]
    body = brief(MemoryList(memories=hits, count=2))
    cut("search_memories", body, 8_000)
    assert body["memories"][0]["omitted_fields"] == ["metadata"]
    assert body["memories"][1]["metadata"] == {"a": 1}
    assert body["count"] == 2


@pytest.mark.promise("AG-4")
def test_what_an_outcome_changed_is_never_cut() -> None:
    report = {"status": "done", "reply": {"status": "success", "updated": [{"note": "n" * 2_000}] * 20}}
    assert json.loads(cut("get_command", dict(report), 8_000)) == report


def test_a_reply_that_has_no_room_for_its_first_item_names_no_call_that_would_show_the_same() -> None:
    ids = {name: str(uuid7()) for name in ("source_id", "target_id", "displaced_id", "replaced_id")}
    body = {"command_id": uuid7(), "results": [{"index": 4 + number, **ids, "note": LONG} for number in range(3)]}
    items = items_of(body)
    fit_to_budget(body, 300, lambda _needed: rest_of_items(body))
    tell_next(body, items)
    assert (body["results"], body["rest"]) == ([], rest_of_items(body))


def test_a_text_without_sentences_is_cut_at_a_word_and_else_where_the_room_ends() -> None:
    words = "word " * 200
    whole = "Once " + "x" * 995
    for content, ends in ((words, "word ..."), (whole, "x ...")):
        body = brief(MemoryList(memories=[memory(content)], count=1))
        cut("search_memories", body, 700)
        shown = body["memories"][0]["content"]
        assert content.startswith(shown.removesuffix(" ..."))
        assert len(shown) > LEAST_CHARS
        assert shown.endswith(ends)


@pytest.mark.promise("KN-9")
def test_of_a_long_hit_the_sentences_are_shown_that_bear_on_the_question() -> None:
    content = f"{LONG[:20_000]} Backups are kept for 35 days in Frankfurt. {LONG[:8_000]}"
    body = brief(MemoryList(memories=[memory(content), memory("short")], count=2))
    text = fit_to_budget(body, 1_500, lambda _: "more", words_of("For how long do we keep a backup?"))
    long, short = body["memories"]
    assert len(text) <= 1_500
    assert "Backups are kept for 35 days in Frankfurt." in long["content"]
    assert (long["truncated"], long["passage"], long["part"], long["parts"]) == (True, True, 3, 5)
    assert short.keys().isdisjoint({"truncated", "passage", "part", "parts"})


@pytest.mark.promise("KN-9")
def test_no_sentences_are_chosen_of_hits_that_cannot_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []

    class Counted(Passages):
        def __init__(self, text: str, words: tuple[str, ...]) -> None:
            super().__init__(text, words)
            chosen.append(text)

    monkeypatch.setattr(budget, "Passages", Counted)
    body = brief(MemoryList(memories=[memory(LONG) for _ in range(50)], count=50))
    fit_to_budget(body, 4_000, lambda _: "more", words_of("keel"))
    assert body["count"] <= len(chosen) <= 30


@pytest.mark.promise("KN-9")
def test_a_part_of_an_untrusted_memory_is_asked_for_as_one() -> None:
    body = brief(MemoryFound(memory=memory(LONG, partition=Partition.UNTRUSTED), status="success"))
    known = body["memory"]["id"]
    assert cut_to_part(body, 1, limits.REPLY_CHARS)["rest"] == (
        f'get_memory(memory_id="{known}", part=2, include_untrusted=true) goes on.'
    )
    told = rest_of(TOOLS["get_memory"], body, is_full=False, needed=limits.REPLY_CHARS_MAX)
    assert f'get_memory(memory_id="{known}", part=1, include_untrusted=true)' in told
    hits = brief(MemoryList(memories=[memory(LONG, partition=Partition.UNTRUSTED)], count=1))
    told = rest_of(TOOLS["search_memories"], hits, is_full=False, needed=limits.REPLY_CHARS_MAX)
    assert told.endswith("get_memory(memory_id, part, include_untrusted=true) shows one whole, in parts.")


@pytest.mark.promise("KN-9")
def test_a_long_content_is_read_in_parts() -> None:
    content = "".join(f'Line {number} says "{number * 7}" and ends.\n' for number in range(900))
    replaces = [MemoryPreview(id=uuid7(), preview="An older one")]
    body = brief(MemoryFound(memory=memory(content, metadata={"a": 1}), replaces=replaces, status="success"))
    known = body["memory"]["id"]
    first = cut_to_part(body, UNSET, limits.REPLY_CHARS)
    assert (first["part"], first["parts"], first["memory"]["metadata"]) == (1, 5, {"a": 1})
    assert first["rest"] == f'get_memory(memory_id="{known}", part=2) goes on.'
    parts = [cut_to_part(body, number, limits.REPLY_CHARS) for number in range(1, 6)]
    assert "".join(part["memory"]["content"] for part in parts) == content
    assert all(len(text_of(part)) <= limits.REPLY_CHARS and "replaces" not in part for part in parts)
    assert "rest" not in parts[-1]
    assert cut_to_part(body, UNSET, limits.REPLY_CHARS_MAX) == body
    with pytest.raises(EngramqError) as refused:
        cut_to_part(body, 7, limits.REPLY_CHARS)
    assert (refused.value.fault.field, refused.value.fault.error) == (
        "part",
        "part 7 does not exist: the content has 5 parts.",
    )


@pytest.mark.promise("KN-9")
def test_no_rest_asks_for_more_than_every_client_shows() -> None:
    bodies: list[Body] = [{}, {"next_cursor": "x"}, {"command_id": "c"}, {"memory": {"id": "m"}}]
    for body in bodies:
        for needed in [limits.ADVISED_CHARS, limits.ADVISED_CHARS + 1_000, limits.REPLY_CHARS_MAX]:
            for tool in TOOLS.values():
                told = rest_of(tool, {"status": "success", **body}, is_full=False, needed=needed)
                assert ("max_chars=10000" in told) == (needed == limits.ADVISED_CHARS), told
                assert "max_chars=1" in told or "max_chars=" not in told
