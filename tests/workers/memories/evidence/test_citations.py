"""What memories cite: stored, changed, imported, refused by name; and what comparisons find, kept and listed."""

from typing import Any

import pytest

from engramq.schemas.commands import EvidenceReported, GetMemory, MemoryFound, ReportEvidence, UpdateMemory
from engramq.schemas.commands.evidence import CheckedMemory
from engramq.schemas.evidence import CheckedCitation, Citation
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import CitationState, SourceType
from tests.scenarios.conftest import agent, settings, stage
from tests.scenarios.stage import Agent
from tests.workers.conftest import World

__all__ = ["agent", "settings", "stage"]


FILE = {"path": "src/oven.py", "lines": "3-9", "commit": "a" * 40, "sha256": "b" * 64}
PAGE = {"url": "https://example.org/manual"}


async def shown(agent: Agent, memory_id: str, **more: Any) -> dict[str, Any]:
    memory: dict[str, Any] = (await agent.call("get_memory", memory_id=memory_id, detail="full", **more))["memory"]
    return memory


async def found(
    world: World, memory_id: str, *states: CitationState | None, cited: tuple[Any, ...]
) -> EvidenceReported:
    evidence = tuple(
        CheckedCitation(**citation, **({} if state is None else {"state": state}))
        for citation, state in zip(cited, states, strict=True)
    )
    command = ReportEvidence(found=(CheckedMemory(memory_id=memory_id, evidence=evidence),))
    return await world.ask(EvidenceReported, command)


async def test_of_an_untrusted_memory_no_state_is_kept(world: World) -> None:
    cited = (Citation(path="a.py", sha256="0" * 64),)
    memory_id = (await world.keep("The oven heats", source_type=SourceType.RESEARCH, evidence=cited)).stored.id
    told = await found(world, memory_id, CitationState.FRESH, cited=({"path": "a.py", "sha256": "0" * 64},))
    assert (told.changed_count, told.missed_count) == (0, 1)
    reply = await world.ask(MemoryFound, GetMemory(memory_id=memory_id, include_untrusted=True))
    assert reply.memory is not None
    assert reply.memory.evidence == [{"path": "a.py", "sha256": "0" * 64}]


@pytest.mark.promise("EV-1")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://ada:hunter2x@example.org/a@b?c=d@e", "https://example.org/a@b?c=d@e"),
        ("http://token@example.org", "http://example.org"),
        ("https://a:b@c@example.org:8443#x", "https://example.org:8443#x"),
        ("https://example.org/@ada", "https://example.org/@ada"),
    ],
)
async def test_an_address_is_kept_without_user_and_password(agent: Agent, given: str, kept: str) -> None:
    stored = await agent.store("The oven heats", evidence=[{"url": given}])
    assert stored["evidence"] == [{"url": kept}]
    changed = await agent.call("update_memory", memory_id=stored["id"], evidence=[{"url": given, "path": "a.py"}])
    assert changed["memory"]["evidence"] == [{"url": kept, "path": "a.py"}]


@pytest.mark.promise("EV-1")
async def test_citations_are_stored_shown_replaced_and_emptied(agent: Agent) -> None:
    ground = await agent.store("The oven was bought in 2019")
    cited = [FILE, PAGE, {"memory_id": ground["id"].upper()}]
    stored = await agent.store("The oven heats to 230", evidence=cited)
    assert stored["evidence"][:2] == [FILE, PAGE], "in brief too"
    memory = await shown(agent, stored["id"])
    assert memory["evidence"] == [FILE, PAGE, {"memory_id": ground["id"], "state": "fresh"}]
    changed = await agent.call("update_memory", memory_id=stored["id"], evidence=[PAGE])
    assert changed["memory"]["evidence"] == [PAGE]
    hit = next(hit for hit in await agent.search("How hot is the oven?") if hit["id"] == stored["id"])
    assert hit["evidence"] == [PAGE]
    await agent.call("update_memory", memory_id=stored["id"], clear=["evidence"])
    assert (await shown(agent, stored["id"]))["evidence"] == []


@pytest.mark.promise("EV-1")
async def test_an_import_brings_citations_and_says_which_row_cites_what_is_not_there(agent: Agent) -> None:
    rows = [
        {"content": "The oven heats to 230", "external_id": "oven", "evidence": [FILE]},
        {"content": "It hums", "evidence": [{"path": "../../etc/passwd"}]},
        {"content": "It is loud", "evidence": [{"memory_id": uuid7()}]},
    ]
    reply = await agent.call("import_memories", records=rows)
    report = (await agent.call("get_command", command_id=reply["command_id"]))["reply"]
    assert (report["stored"], report["rejected"]) == (1, 2)
    assert [receipt.get("field") for receipt in report["receipts"]] == [None, "evidence", "evidence"]
    kept = await shown(agent, report["receipts"][0]["memory_id"])
    assert kept["evidence"] == [FILE]
    again = [{"content": "The oven heats to 230", "external_id": "oven", "evidence": [FILE]}]
    reply = await agent.call("import_memories", records=again, on_duplicate="update")
    assert (await agent.call("get_command", command_id=reply["command_id"]))["reply"]["skipped"] == 1
    reply = await agent.call("import_memories", records=[{**again[0], "evidence": [PAGE]}], on_duplicate="update")
    assert (await agent.call("get_command", command_id=reply["command_id"]))["reply"]["updated"] == 1
    assert (await shown(agent, kept["id"]))["evidence"] == [PAGE]


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"path": "/etc/passwd"}, "evidence[0].path"),
    ({"path": "../secret"}, "evidence[0].path"),
    ({"path": "src/../../secret"}, "evidence[0].path"),
    ({"path": "C:\\secret"}, "evidence[0].path"),
    ({"path": "a\nb"}, "evidence[0].path"),
    ({"path": "  "}, "evidence[0].path"),
    ({"path": "a" * 501}, "[0].path"),
    ({"path": "a", "lines": "9-3"}, "evidence[0].lines"),
    ({"path": "a", "lines": "0"}, "[0].lines"),
    ({"path": "a", "sha256": "b" * 63}, "[0].sha256"),
    ({"path": "a", "commit": "main"}, "[0].commit"),
    ({"url": "file:///etc/passwd"}, "[0].url"),
    ({"lines": "3"}, "evidence[0]"),
    ({}, "evidence[0]"),
    ({"memory_id": "oven"}, "evidence[0].memory_id"),
    ({"file": "a"}, "evidence"),
    ({"path": "a", "state": "fresh"}, "evidence"),
]


@pytest.mark.promise("EV-1")
async def test_what_none_can_cite_is_refused_by_name(agent: Agent) -> None:
    for citation, named in REFUSED:
        refused = await agent.call("store_memory", content="The oven hums", evidence=[citation])
        assert (refused["status"], refused["field"]) == ("invalid_parameter", "evidence"), citation
        assert named in refused["error"], citation
    assert await agent.search("oven") == []


@pytest.mark.promise("EV-1")
async def test_memories_of_the_session_are_cited_by_reference(agent: Agent) -> None:
    ground = await agent.store("The oven was bought in 2019", session="s")
    cited = [PAGE, {"memory_id": "@stored"}]
    reply = await agent.call("store_memory", content="Its guarantee ended in 2021", evidence=cited, session="s")
    assert reply["resolved_references"]["@stored"]["id"] == ground["id"]
    named = [PAGE, {"memory_id": ground["id"], "state": "fresh"}]
    assert (await shown(agent, reply["stored"]["id"]))["evidence"] == named
    await agent.call("search_memories", query="oven bought", limit=1, session="s")
    cited = [{"memory_id": "@recalled[0]"}]
    changed = await agent.call("update_memory", memory_id="@stored", evidence=cited, session="s")
    assert [citation["memory_id"] for citation in changed["memory"]["evidence"]] == [ground["id"]]
    refused = await agent.call("store_memory", content="x", evidence=[{"memory_id": "@recalled[7]"}], session="s")
    assert (refused["status"], refused["field"]) == ("invalid_parameter", "evidence")


@pytest.mark.promise("EV-1")
async def test_a_path_is_kept_as_git_writes_it(agent: Agent) -> None:
    paths = ("./src/oven.py", "src//oven.py", "src/./oven.py")
    stored = await agent.store("The oven heats to 230", evidence=[{**FILE, "path": path} for path in paths])
    assert (await shown(agent, stored["id"]))["evidence"] == [FILE] * 3


@pytest.mark.promise("EV-1")
async def test_more_than_ten_are_refused(agent: Agent) -> None:
    refused = await agent.call("store_memory", content="The oven hums", evidence=[PAGE] * 11)
    assert (refused["status"], refused["field"]) == ("invalid_parameter", "evidence")
    with pytest.raises(EngramqError):
        UpdateMemory(memory_id=uuid7(), evidence=(Citation(path="/"),)).check()


@pytest.mark.promise("EV-1")
async def test_unknown_and_foreign_memories_are_refused_in_the_same_words(agent: Agent, world: World) -> None:
    other = await world.keep("A stranger's memory", namespace="strangers")
    gone = await agent.store("This is wrong")
    await agent.call("forget_memory", memory_id=gone["id"])
    errors = set()
    for memory_id in (uuid7(), other.stored.id, gone["id"]):
        refused = await agent.call("store_memory", content="The oven hums", evidence=[{"memory_id": memory_id}])
        assert (refused["status"], refused["field"]) == ("invalid_parameter", "evidence")
        errors.add((refused["error"], refused["recovery"]))
    assert len(errors) == 1


@pytest.mark.promise("EV-5")
async def test_what_a_comparison_finds_is_kept_listed_and_audited_once(agent: Agent, world: World) -> None:
    stored = await agent.store("The oven heats to 230", evidence=[FILE, PAGE])
    other = await agent.store("The oven is loud", evidence=[PAGE])
    changed = CitationState.CHANGED
    assert (await found(world, stored["id"], changed, None, cited=(FILE, PAGE))).changed_count == 1
    assert (await found(world, stored["id"], changed, None, cited=(FILE, PAGE))).changed_count == 0
    assert (await found(world, stored["id"], changed, cited=(FILE,))).missed_count == 1
    assert (await found(world, uuid7(), changed, cited=(FILE,))).missed_count == 1
    memory = await shown(agent, stored["id"])
    assert memory["evidence"][0].items() >= {**FILE, "state": "changed"}.items()
    assert {"checked_by", "checked_at"} < memory["evidence"][0].keys()
    assert memory["evidence"][1] == PAGE
    assert memory["updated_at"] == memory["created_at"]
    entries = world.rows("select old, new from audit_log where action = 'check_evidence'")
    assert [(entry["old"], entry["new"]) for entry in entries] == [
        ({"states": [None, None]}, {"states": ["changed", None]})
    ]
    stale = await agent.call("list_recent_memories", evidence="stale")
    assert [each["id"] for each in stale["memories"]] == [stored["id"]]
    cited = await agent.call("list_recent_memories", evidence="cited")
    assert {each["id"] for each in cited["memories"]} == {stored["id"], other["id"]}
    # Whoever verifies says what it rests on by now, and that is fresh until the next comparison.
    await agent.call("update_memory", memory_id=stored["id"], evidence=[FILE])
    assert (await agent.call("list_recent_memories", evidence="stale"))["memories"] == []


@pytest.mark.promise("EV-5")
async def test_what_rests_on_a_memory_is_fresh_again_with_it_though_it_was_checked_between(
    agent: Agent, world: World
) -> None:
    ground = await agent.store("The oven was bought in 2019")
    cited = (FILE, {"memory_id": ground["id"]})
    resting = await agent.store("The oven's guarantee has ended", evidence=list(cited))
    await agent.call("forget_memory", memory_id=ground["id"])
    (stale,) = (await agent.call("list_recent_memories", evidence="stale", detail="full"))["memories"]
    assert stale["evidence"][1]["state"] == "gone"
    await found(world, resting["id"], CitationState.FRESH, CitationState.GONE, cited=cited)
    await agent.call("restore_memory", memory_id=ground["id"])
    assert (await agent.call("list_recent_memories", evidence="stale"))["memories"] == []
    assert (await shown(agent, resting["id"]))["evidence"][1] == {"memory_id": ground["id"], "state": "fresh"}


@pytest.mark.promise("EV-5")
@pytest.mark.parametrize("how", ["rejected", "forgotten", "erased", "superseded", "ended", "expired"])
async def test_what_rests_on_a_memory_that_holds_no_longer_is_stale(agent: Agent, how: str) -> None:
    ground = await agent.store("The oven was bought in 2019")
    resting = await agent.store("The oven's guarantee has ended", evidence=[{"memory_id": ground["id"]}])
    assert (await agent.call("list_recent_memories", evidence="stale"))["memories"] == []
    match how:
        case "rejected":
            await agent.call("verify_memory", memory_id=ground["id"], verification="rejected")
        case "forgotten" | "erased":
            await agent.call("forget_memory", memory_id=ground["id"], erase=how == "erased")
        case "superseded":
            newer = await agent.store("The oven was bought in 2020")
            await agent.call("supersede_memory", old_memory_id=ground["id"], new_memory_id=newer["id"])
        case "ended":
            await agent.call("update_memory", memory_id=ground["id"], valid_until="2020-01-01")
        case _:
            await agent.call("update_memory", memory_id=ground["id"], expires_at="2020-01-01")
    stale = await agent.call("list_recent_memories", evidence="stale")
    assert [each["id"] for each in stale["memories"]] == [resting["id"]]
