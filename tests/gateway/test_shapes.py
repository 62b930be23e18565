"""One word, one shape: the fields of all replies, compared across tools."""

from typing import Final

import pytest

from engramq.gateway.service import Service
from engramq.schemas.commands import (
    Connected,
    Disconnected,
    EdgeAdded,
    EdgeFound,
    EdgeMissing,
    Forgotten,
)
from engramq.schemas.commands.links import BatchLinked
from engramq.schemas.faults import HINTS, missing
from engramq.schemas.records import DisplacedLink, Link, PathEdge, Via
from engramq.schemas.vocabulary import Thing
from tests.gateway.shapes import DIFFERENT, IDS, replies, shape_of, structs_of, words_of
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_server import ERAS, call, client_of
from tests.gateway.worker_side import WorkerSide

pytestmark = pytest.mark.promise("OV-11")

STRUCTS: Final = structs_of(replies())
ENDS: Final = {"source_id", "target_id"}
# Its statuses are those of reclassify_memory_sector, of which it has but invalid_sector and not_found.
# Replies about one node or edge have its fields at their top, as the contract says.


def test_a_field_has_the_same_shape_in_all_replies() -> None:
    shapes: dict[str, dict[str, set[str]]] = {}
    for struct, fields in STRUCTS.items():
        for name, info in fields.items():
            for shape in shape_of(info):
                shapes.setdefault(name, {}).setdefault(shape, set()).add(struct.__name__)
    several = {name: found for name, found in shapes.items() if len(found) > 1 or name in DIFFERENT}
    new = {name: found for name, found in several.items() if set(found) - set(DIFFERENT.get(name, ()))}
    assert not new, (
        f"These fields have several shapes: {new}. Give each the shape that it has elsewhere, or another name; if "
        "the contract wants one word for two things, add the shape with its reason to DIFFERENT in shapes.py."
    )
    stale = {name: set(allowed) - set(shapes.get(name, ())) for name, allowed in DIFFERENT.items()}
    stale = {name: gone for name, gone in stale.items() if gone}
    assert not stale, f"DIFFERENT in tests/gateway/shapes.py allows what no reply has: {stale}"


def test_an_id_has_a_known_name() -> None:
    ids = {struct.__name__: {name for name in fields if name.endswith("_id")} for struct, fields in STRUCTS.items()}
    unknown = {name: new for name, found in ids.items() if (new := found - set(IDS))}
    assert not unknown, (
        f"These replies name ids: {unknown}. Use the word that other replies have ({', '.join(IDS)}); for what has "
        f"no word yet, add one to IDS in tests/gateway/shapes.py."
    )


def test_what_is_not_there_is_told_with_what_and_hint() -> None:
    for struct, fields in STRUCTS.items():
        told = {name: set(words_of(fields[name])) for name in ("status", "action") if name in fields}
        if not any("not_found" in words for words in told.values()):
            continue
        if struct is EdgeMissing:
            assert set(fields) - {"resolved_references"} == {"edge", "status"}, "the contract fixes it to the letter"
            continue
        shapes = {name: shape_of(fields[name]) for name in ("what", "hint") if name in fields}
        assert shapes == {"what": {"Thing"}, "hint": {"text"}}, (
            f"{struct.__name__} can be not_found: give it `what: Thing` and `hint: str` (UNSET for its other statuses) "
            f"and answer with **missing(Thing...) of schemas/faults.py."
        )


def test_links_are_told_alike() -> None:
    for whole in (Connected, BatchLinked, Disconnected, DisplacedLink, EdgeAdded, EdgeFound, PathEdge):
        assert set(STRUCTS[whole]) >= ENDS, whole
    for seen_from_one in (Link, Via):
        assert "memory_id" in STRUCTS[seen_from_one]
        assert not ENDS & set(STRUCTS[seen_from_one])
    batch = set(STRUCTS[BatchLinked]) - {"index"}
    assert batch == set(STRUCTS[Connected]) - {"status", "command_id", "resolved_references"}


ELSEWHERE: Final = "`engramq stdio --tools full`, or ENGRAMQ_TOOLS=full, lists a tool for this."


@pytest.mark.parametrize(
    ("profile", "hint"),
    [("core", HINTS[Thing.MEMORY]), ("forget_memory", f"There is no memory of this id. {ELSEWHERE}")],
)
async def test_the_hint_names_only_tools_that_are_there(
    service: Service, workers: WorkerSide, profile: str, hint: str
) -> None:
    absent = Forgotten(status="not_found", id="m", **missing(Thing.MEMORY))
    workers.script = {kind: (lambda _c, _e: absent) for kind in workers.script}
    async with client_of(service, ERAS[1], profile) as client:
        body = await call(client, "forget_memory", **MINIMAL["forget_memory"])
    assert (body["what"], body["hint"]) == ("memory", hint)
