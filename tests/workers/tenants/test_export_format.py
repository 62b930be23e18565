"""What is no whole export is refused, with the line, the field and the reason, before anything is written."""

import json
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.exports import RECORDS, Head, MemoryRecord, type_of
from engramq.workers.tenants.export_check import ExportRefused
from engramq.workers.tenants.export_rules import ExportRules
from engramq.workers.tenants.restoring import CheckedExport, check
from tests.workers.tenants.export_lines import AT, SCHEMA, an_id, edge, head, memory, node, records, whole
from tests.workers.tenants.test_export import documented

# Wrong for every field: a table where none is, a number where one is.
NO_VALUE: dict[str, Any] = {"damaged": True}
OPTIONAL = {"embedding", "embedding_model"}  # together: an export may have no vectors
Change = Callable[[list[dict[str, Any]]], None]


def read(lines: Iterable[bytes]) -> CheckedExport | ExportRefused:
    try:
        return check(lambda: lines, lambda _what, _records, _of: None)
    except ExportRefused as refused:
        return refused


def checked(lines: Iterable[bytes]) -> CheckedExport:
    found = read(lines)
    assert isinstance(found, CheckedExport), found
    return found


def refusal(lines: Iterable[bytes]) -> tuple[int, str, str]:
    found = read(lines)
    assert isinstance(found, ExportRefused), found
    return found.line, found.field, found.reason


def of_type(said: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(item for item in said if item["type"] == kind)


@pytest.mark.promise("IM-5")
def test_a_whole_export_is_taken_with_fields_that_nobody_knows() -> None:
    said = [{**record, "of_a_later_release": [1]} for record in records()]
    found = checked(whole(said, head(of_a_later_release=1)))
    assert found.summary.counts == {
        "memory": 3, "node": 2, "edge": 2, "link": 2, "deferred_link": 1, "tombstone": 1, "proposal": 2,
        "imported_row": 1, "audit": 1,
    }  # fmt: skip
    assert sum(found.summary.vectors.values()) == 3
    assert checked(whole([])).summary.counts["memory"] == 0


def test_the_format_has_the_fields_that_the_page_names() -> None:
    told = documented()
    for kind in RECORDS:
        fields = {field.name for field in msgspec.structs.fields(kind)}
        assert fields - OPTIONAL == told[type_of(kind)], kind


@pytest.mark.promise("IM-5")
@pytest.mark.parametrize("kind", [type_of(record) for record in RECORDS])
def test_each_field_of_each_record_is_checked(kind: str) -> None:
    place = next(number for number, record in enumerate(records()) if record["type"] == kind)
    fields = [name for name in records()[place] if name != "type"]
    assert fields
    for name in fields:
        said = records()
        said[place][name] = 7 if isinstance(said[place][name], dict) else NO_VALUE
        assert refusal(whole(said))[:2] == (place + 2, name), (kind, name)
        said = records()
        del said[place][name]
        line, field, reason = refusal(whole(said))
        if name in OPTIONAL:
            assert (line, field) == (place + 2, "embedding_model")
        else:
            assert (line, field, reason) == (place + 2, name, "it is missing."), (kind, name)


def test_each_field_of_the_head_is_checked() -> None:
    for name in [field.name for field in msgspec.structs.fields(Head)]:
        assert refusal(whole(records(), head(**{name: NO_VALUE})))[:2] == (1, name)
        left = {key: value for key, value in head().items() if key != name}
        if name in {"language", "visibility", "sharing_consent", "admins_read"}:  # older exports have none
            assert isinstance(read(whole(records(), left)), CheckedExport)
        else:
            assert refusal(whole(records(), left)) == (1, name, "it is missing.")


def changed(kind: str, **values: Any) -> Change:
    return lambda said: of_type(said, kind).update(values)


def all_changed(kind: str, **values: Any) -> Change:
    def change(said: list[dict[str, Any]]) -> None:
        for item in said:
            if item["type"] == kind:
                item.update(values)

    return change


def apart(*owners: str) -> Change:
    """Let the memories be private to these principals, and the first link to the first of them."""

    def change(said: list[dict[str, Any]]) -> None:
        for item, owner in zip((item for item in said if item["type"] == "memory"), owners, strict=True):
            item["owner"] = owner
        of_type(said, "link")["owner"] = owners[0]

    return change


def appended(record: dict[str, Any], after: str) -> Change:
    def change(said: list[dict[str, Any]]) -> None:
        last = max(place for place, item in enumerate(said) if item["type"] == after)
        said.insert(last + 1, record)

    return change


@pytest.mark.promise("IM-5", "TI-7")
def test_what_does_not_fit_is_refused() -> None:
    for change, line, field, reason in [
        (changed("memory", confidence=1.01), 2, "confidence", "<= 1"),
        (changed("memory", state="asleep"), 2, "state", "asleep"),
        (changed("memory", content=" "), 2, "content", "matching regex"),
        (changed("memory", content="x" * 32_769), 2, "content", "32768"),
        (changed("memory", created_at="2026-01-01T00:00:00"), 2, "created_at", "timezone"),
        (changed("memory", valid_until="2020-01-01T00:00:00Z"), 2, "valid_until", "not later"),
        (changed("memory", superseded_by=an_id(1)), 2, "superseded_by", "itself"),
        (changed("memory", superseded_by=an_id(9)), 2, "superseded_by", "there is no memory"),
        (changed("memory", embedding="AAAA"), 2, "embedding", "3 bytes"),
        (changed("memory", embedding="fAB8AHwA"), 2, "embedding", "finite"),
        (changed("memory", usage={"access_count": "1"}), 2, "usage.access_count", "int"),
        (changed("memory", metadata={"a": {"b": "\0"}}), 2, "metadata", "U+0000"),
        (changed("memory", active_hours=1e308), 2, "active_hours", "10000000"),
        (changed("memory", position=2**31), 2, "position", "2147483647"),
        (changed("memory", external_id="n-11"), 5, "external_id", "the same"),
        (changed("memory", owner="ada", superseded_by=None), 3, "supersedes", "private to somebody"),
        (changed("memory", owner="ada\x1fadmin"), 2, "owner", "called so"),
        (changed("memory", owner="\U0010ffff" * 300), 2, "owner", "called so"),
        (changed("audit", owner="\U0010ffff" * 300), 16, "owner", "called so"),
        (all_changed("memory", owner="ada"), 9, "owner", "not that of the private ends"),
        (changed("link", owner="ada", note=None), 9, "owner", "neither end"),
        (changed("edge", owner="ada", note=None), 7, "owner", "neither end"),
        (changed("link", owner="ada\x1fadmin"), 9, "owner", "called so"),
        (apart("ada", "ada", "bob"), 10, "target_id", "two principals"),
        (changed("memory", sector_source="none"), 2, "sector", "has none"),
        (changed("edge", sector_source="none"), 7, "sector_source", "only a memory"),
        (changed("link", sector_source="none"), 9, "sector_source", "only a memory"),
        (changed("memory", id=an_id(2), superseded_by=None), 3, "id", "not greater"),
        (appended(memory(2, external_id=None), "memory"), 5, "id", "not greater"),
        (appended(memory(4, external_id="m-1"), "memory"), 5, "external_id", "the same"),
        (appended(node(3), "memory"), 5, "id", "a memory's"),
        (appended(node(13, name="Node 11"), "node"), 7, "name", "is there already"),
        (appended(memory(5), "node"), 7, "type", "memory stands after node"),
        (appended({"type": "dream"}, "node"), 7, "type", "dream"),
        (appended({}, "node"), 7, "type", "missing"),
        (changed("edge", source_id=an_id(99)), 7, "source_id", "there is no node"),
        (changed("edge", valid_until="2020-01-01T00:00:00Z"), 7, "valid_until", "not later"),
        (changed("edge", weight=-0.1), 7, "weight", ">= 0"),
        (appended(edge(23, "edge", 11, 12), "edge"), 9, "relation", "is there already"),
        (changed("link", target_id=an_id(11)), 9, "target_id", "there is no memory"),
        (changed("link", source_id=an_id(3), target_id=an_id(1)), 9, "target_id", "not greater than source_id"),
        (appended(edge(33, "link", 2, 3), "link"), 11, "target_id", "is there already"),
        (changed("deferred_link", request={"weight": "heavy"}), 11, "request", "weight"),
        (changed("deferred_link", principal={"name": "ada", "scopes": ["all"]}), 11, "principal.scopes[0]", "all"),
        (changed("tombstone", high_id=an_id(9)), 12, "high_id", "there is no memory"),
        (changed("proposal", new_sector=None), 13, "new_sector", "needs one"),
        (changed("proposal", change={"weight": 1}), 13, "change", "has none"),
        (changed("proposal", covers=[an_id(1), "x"]), 13, "covers[1]", "UUID"),
        (changed("imported_row", digest="0A" * 16), 15, "digest", "matching regex"),
        (changed("audit", id=2**63), 16, "id", str(2**63 - 1)),
    ]:
        said = records()
        change(said)
        found = refusal(whole(said))
        assert found[:2] == (line, field), found
        assert reason in found[2]


@pytest.mark.promise("IM-5", "PV-2")
def test_a_note_that_nobody_judged_stays_its_owners_between_shared_ends() -> None:
    said = records()
    changed("link", owner="ada")(said)
    assert isinstance(read(whole(said)), CheckedExport)


def test_what_supersedes_has_to_be_there_where_memories_are_all_there_is() -> None:
    line, field, reason = refusal(whole([memory(1, superseded_by=an_id(9)), memory(2)]))
    assert (line, field) == (2, "superseded_by"), reason


def supersessions(*pairs: tuple[int, int], **partitions: str) -> list[bytes]:
    """Return an export of nine memories in which the first of each pair is superseded by the second."""
    successor = {old: an_id(new) for old, new in pairs}
    return whole(
        memory(number, superseded_by=successor.get(number), partition=partitions.get(f"m{number}", "trusted"))
        for number in range(1, 10)
    )


@pytest.mark.promise("IM-5", "TP-21")
@pytest.mark.parametrize(
    ("lines", "line", "field", "reason"),
    [
        (supersessions((1, 2), (2, 1)), 2, "superseded_by", "lead back to it"),
        (supersessions((9, 4), (4, 5), (5, 3), (3, 4)), 4, "superseded_by", "lead back to it"),
        (supersessions((3, 1), m1="untrusted"), 4, "superseded_by", "untrusted"),
        (supersessions((3, 7), m7="untrusted"), 4, "superseded_by", "untrusted"),
        (whole([memory(1), memory(2, supersedes=an_id(1), partition="untrusted")]), 3, "supersedes", "untrusted"),
        (whole([memory(1), memory(2, supersedes=an_id(7))]), 3, "supersedes", "there is no memory"),
        (whole([memory(1, supersedes=an_id(1))]), 2, "supersedes", "itself"),
    ],
)
def test_a_supersession_that_no_store_allows_is_refused(lines: list[bytes], line: int, field: str, reason: str) -> None:
    found = refusal(lines)
    assert found[:2] == (line, field), found
    assert reason in found[2]


def test_chains_of_supersessions_are_taken_in_whatever_order_they_come() -> None:
    tree = supersessions((1, 9), (2, 9), (9, 4), (4, 3), (5, 6), m5="untrusted", m1="untrusted")
    assert checked(tree).summary.counts["memory"] == 9
    long = 200
    forward = [
        memory(number, superseded_by=an_id(number + 1) if number < long else None) for number in range(1, long + 1)
    ]
    assert checked(whole(forward)).summary.counts["memory"] == long


@pytest.mark.promise("IM-5", "TP-21")
@pytest.mark.parametrize(
    ("low", "high", "relation", "taken"),
    [
        ({}, {}, "supports", True),
        ({"partition": "untrusted"}, {"partition": "untrusted"}, "supports", True),
        # Links that a promotion made mixed stay, and so do those of supersessions.
        ({"partition": "untrusted"}, {}, "supports", True),
        ({"partition": "untrusted", "superseded_by": an_id(2)}, {"promoted_at": None}, "supersedes", True),
        ({"partition": "untrusted"}, {"promoted_at": None}, "supports", False),
        ({"promoted_at": None}, {"partition": "untrusted"}, "supports", False),
        ({"partition": "untrusted"}, {"promoted_at": None}, "supersedes", False),
        ({"partition": "untrusted", "superseded_by": an_id(2)}, {"promoted_at": None}, "supports", False),
        # That an untrusted one says that it was promoted is no promotion.
        ({"partition": "untrusted", "promoted_at": AT}, {"promoted_at": None}, "supports", False),
    ],
)
def test_links_between_partitions_are_of_promotions_and_supersessions(
    low: dict[str, Any], high: dict[str, Any], relation: str, *, taken: bool
) -> None:
    lines = whole([memory(1, **low), memory(2, **high), edge(31, "link", 1, 2, relation=relation)])
    if taken:
        assert checked(lines).summary.counts["link"] == 1
    else:
        line, field, reason = refusal(lines)
        assert (line, field) == (4, "target_id")
        assert "one end is trusted" in reason


@pytest.mark.long
def test_a_million_memories_and_their_supersessions_are_checked_in_bounded_memory() -> None:
    """A fiftieth of them, whose share is a fiftieth of 200 MB."""
    count = 20_000
    one = msgspec.convert(memory(0, external_id=None, embedding=None, embedding_model=None), MemoryRecord)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        rules = ExportRules()
        for number in range(1, count + 1):
            pointers = {"superseded_by": UUID(int=number + 1) if number < count else None}
            pointers |= {"supersedes": UUID(int=number - 1) if number > 1 else None}
            rules.check(msgspec.structs.replace(one, id=UUID(int=number), **pointers), number)
        rules.end_memories()
        rules.close()
        taken = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert taken < 4_000_000, taken


@pytest.mark.promise("IM-5")
def test_what_is_cut_or_of_a_later_release_is_refused() -> None:
    for lines, line, field, reason in [
        ([], 1, "type", "no export"),
        ([b'{"content": "a row"}\n'], 1, "type", "no export"),
        (whole(records(), head(version=2)), 1, "version", "later release"),
        (whole(records(), head(schema=SCHEMA + 1)), 1, "schema", "later release"),
        (whole(records())[:-1], 17, "file", "cut off"),
        (whole(records())[:5], 6, "file", "cut off"),
        ([*whole(records())[:4], whole(records())[4][:30]], 5, "line", "truncated"),
        (whole(records())[:14] + whole(records())[15:], 16, "counts.imported_row", "1 are announced, 0 are there"),
        (whole(records(), memory=4), 17, "counts.memory", "4 are announced, 3 are there"),
        (whole(records(), dream=1), 17, "counts.dream", "1 are announced, 0 are there"),
        ([*whole(records()), b"{}\n"], 18, "line", "ended with line 17"),
        ([*whole(records())[:3], b"\xff\xfe\n"], 4, "line", "no JSON"),
        ([*whole(records())[:3], b"[" * 100_000], 4, "line", "object"),
    ]:
        found = refusal(lines)
        assert found[:2] == (line, field), found
        assert reason in found[2]


def test_an_export_of_an_unreleased_revision_is_taken() -> None:
    """They counted 30 migrations: a home of one is refused, and its export is the way into a new one."""
    assert checked(whole(records(), head(schema=30))).summary.counts["memory"] == 3


def test_blank_lines_and_a_byte_order_mark_are_passed_over() -> None:
    first, *rest = whole(records())
    assert checked([b"\xef\xbb\xbf" + first, b"\n", *rest, b"\r\n"]).summary.counts["memory"] == 3


def test_text_that_only_looks_like_a_null_character_is_taken() -> None:
    said = memory(1, content="\\u0000 in Python", metadata={"\\\\": "\\\\u0000"})
    assert checked(whole([said])).summary.counts["memory"] == 1


SAMPLE = b"".join(whole(records()))


@given(st.data())
def test_whatever_a_damaged_file_says_it_is_taken_or_refused_by_line_and_field(data: st.DataObject) -> None:
    damaged = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(damaged) - 1))
        end = data.draw(st.integers(begin, min(len(damaged), begin + 40)))
        damaged[begin:end] = data.draw(st.binary(max_size=8) | st.sampled_from([b"", b"null", b"-1", b'"', b"}\n{"]))
    lines = bytes(damaged).splitlines(keepends=True)
    found = read(lines)
    if isinstance(found, ExportRefused):
        assert 1 <= found.line <= len(lines) + 1
        assert found.field
        assert found.reason
    else:
        end = json.loads(next(line for line in reversed(lines) if line.strip()))
        assert {**dict.fromkeys(found.summary.counts, 0), **end["counts"]} == dict(found.summary.counts)
