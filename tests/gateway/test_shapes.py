"""One word, one shape: the fields of all replies, and the schema of a tool's replies, which holds for each of them."""

from typing import Any, Final

import msgspec
import pytest

from engramq.gateway.mcp.audience import ALL_TOOLS, audience_of
from engramq.gateway.mcp.schema import ErasedSince, PendingReply, output_schema
from engramq.gateway.service import Service, fault_reply
from engramq.schemas.codec import reply_body
from engramq.schemas.commands import (
    TOOLS,
    Connected,
    Disconnected,
    EdgeAdded,
    EdgeFound,
    EdgeMissing,
    Forgotten,
    Reply,
)
from engramq.schemas.commands.links import BatchLinked
from engramq.schemas.faults import HINTS, Fault, FaultCode, missing
from engramq.schemas.records import DisplacedLink, Link, PathEdge, Via
from engramq.schemas.vocabulary import ALL_SCOPES, Thing
from tests.gateway.replies import check_reply
from tests.gateway.shapes import DIFFERENT, IDS, replies, shape_of, structs_of, words_of
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_server import ERAS, call, client_of
from tests.gateway.worker_side import WorkerSide
from tests.schemas.samples import sample

STRUCTS: Final = structs_of(replies())
ENDS: Final = {"source_id", "target_id"}
# Its statuses are those of reclassify_memory_sector, of which it has but invalid_sector and not_found.
# Replies about one node or edge have its fields at their top, as the contract says.


@pytest.mark.promise("OV-11")
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


@pytest.mark.promise("OV-11")
def test_an_id_has_a_known_name() -> None:
    ids = {struct.__name__: {name for name in fields if name.endswith("_id")} for struct, fields in STRUCTS.items()}
    unknown = {name: new for name, found in ids.items() if (new := found - set(IDS))}
    assert not unknown, (
        f"These replies name ids: {unknown}. Use the word that other replies have ({', '.join(IDS)}); for what has "
        f"no word yet, add one to IDS in tests/gateway/shapes.py."
    )


@pytest.mark.promise("OV-11")
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


@pytest.mark.promise("OV-11")
def test_links_are_told_alike() -> None:
    for whole in (Connected, BatchLinked, Disconnected, DisplacedLink, EdgeAdded, EdgeFound, PathEdge):
        assert set(STRUCTS[whole]) >= ENDS, whole
    for seen_from_one in (Link, Via):
        assert "memory_id" in STRUCTS[seen_from_one]
        assert not ENDS & set(STRUCTS[seen_from_one])
    batch = set(STRUCTS[BatchLinked]) - {"index"}
    assert batch == set(STRUCTS[Connected]) - {"status", "command_id", "resolved_references"}


ELSEWHERE: Final = "`engramq stdio --tools full`, or ENGRAMQ_TOOLS=full, lists a tool for this."


@pytest.mark.promise("OV-11")
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


def body_of(reply: msgspec.Struct) -> dict[str, Any]:
    body = reply_body(reply) if isinstance(reply, Reply) else msgspec.to_builtins(reply)
    travelled: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    return travelled


EVERYTHING = audience_of(ALL_TOOLS, ALL_SCOPES, untrusted=False)


def test_every_reply_and_refusal_fulfils_the_schema_with_every_field_and_with_the_least() -> None:
    for tool in TOOLS.values():
        for kind in tool.replies:
            for filled in (True, False):
                check_reply(tool.name, body_of(sample(kind, full=filled)), is_error=False)
        for code in FaultCode:
            least = Fault(code=code, error="e", recovery=code.recovery)
            full = msgspec.structs.replace(least, field="f", memory_id="m", retry_after_s=1.5, command_id="c")
            for fault in (least, full):
                refused = fault_reply(fault, EVERYTHING)
                check_reply(tool.name, refused.body, is_error=refused.is_error)
        for reply in (PendingReply(command_id="c"), ErasedSince(id="m")):
            if tool.write:
                check_reply(tool.name, body_of(reply), is_error=False)
            else:
                assert type(reply).__name__ not in output_schema(tool)["$defs"]
