"""Of long memories the sentences are shown that bear on the question, in parts whole; the question of a paste is found.

Through MCP, with the real model and the installation's floor off: what is judged likely is told elsewhere.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import product

import pytest

from engramq.gateway.replies import ReplyStyle
from engramq.schemas import limits
from tests.conftest import Database
from tests.scenarios.handbook import FILLER, HANDBOOK, MINUTES, handbook_of, minutes
from tests.scenarios.stage import Agent, agent_of, stage_settings, staged, until
from tests.schemas.pasted import CASES, log_of

pytestmark = pytest.mark.long
THINGS = ("bicycle", "garden", "telephone", "insurance", "boat", "coat")
OTHERS = [
    f"{name} spoke about the {thing} for a while, and then about number {number}."
    for number, (name, thing) in enumerate(product(("Ben", "Chloe", "Dan", "Eve", "Finn"), THINGS))
]


@pytest.fixture
async def agent(database: Database, redis_url: str, key_prefix: str) -> AsyncIterator[Agent]:
    settings = stage_settings(database, redis_url, key_prefix, embedder="minilm", link_threshold="1")
    async with staged(settings) as stage, AsyncExitStack() as resources:
        service = replace(await stage.gateway(), style=ReplyStyle())
        yield await resources.enter_async_context(agent_of(service))


async def keep(agent: Agent, contents: list[str]) -> None:
    records = [{"content": content} for content in contents]
    accepted = await agent.call("import_memories", records=records)

    async def are_kept() -> bool:
        report = await agent.call("get_command", command_id=accepted["command_id"])
        return report["status"] == "done" and not (await agent.call("memory_stats"))["by_state"].get("pending")

    await until(are_kept, 90.0)


@pytest.mark.promise("KN-8")
async def test_what_is_pasted_beside_a_question_changes_nothing(agent: Agent) -> None:
    await keep(agent, [*OTHERS, *(answer for _, _, answer in CASES)])
    for paste, question, answer in CASES:
        for query in (question, f"{question}\n\n{paste}", f"{paste}\n\n{question}"):
            assert (await agent.search(query))[0]["content"] == answer, query
    for chars in (5_000, 10_000, 20_000, 32_000):
        for _, question, answer in CASES[:3]:
            assert (await agent.search(f"{log_of(chars)}\n{question}"))[0]["content"] == answer
    assert await agent.refusal_of("search_memories", query="x" * (limits.QUERY_CHARS + 1)) == "query"
    assert (await agent.call("search_memories", query="\U0001f980"))["status"] == "success"


@pytest.mark.promise("KN-9")
async def test_the_default_reply_holds_the_answer_that_stands_in_a_long_memory(agent: Agent) -> None:
    notes = [handbook_of(chars) for chars in (5_500, 12_000, 28_000)]
    for note in notes:
        await keep(agent, [*OTHERS, note, minutes()] if note is notes[0] else [note])
        for question, answer in (*HANDBOOK, *MINUTES):
            found = await agent.call("search_memories", query=question)
            assert len(json.dumps(found, separators=(",", ":"), ensure_ascii=False)) <= limits.REPLY_CHARS
            assert answer in json.dumps(found, ensure_ascii=False), question
        cut = [memory for memory in found["memories"] if memory.get("truncated")]
        assert all(memory["passage"] and 1 <= memory["part"] <= memory["parts"] for memory in cut)


@pytest.mark.promise("KN-9")
async def test_a_long_memory_is_read_in_parts_that_every_client_shows(agent: Agent) -> None:
    content = handbook_of(28_000)
    known = (await agent.call("store_memory", content=content, tags=["rules"], metadata={"a": "b" * 6_000}))["stored"][
        "id"
    ]
    first = await agent.call("get_memory", memory_id=known)
    assert (first["part"], first["parts"]) == (1, 5)
    assert first["rest"] == (  # metadata took its room
        f'get_memory(memory_id="{known}", part=1) shows that part whole. '
        "A larger max_chars, where the client shows so much, shows what is around it."
    )
    parts = [await agent.call("get_memory", memory_id=known, part=number) for number in range(1, 6)]
    assert "".join(part["memory"]["content"] for part in parts) == content
    assert [(part["part"], part["parts"]) for part in parts] == [(number, 5) for number in range(1, 6)]
    assert all("truncated" not in part["memory"] for part in parts)
    assert [part.get("rest", "").partition("part=")[2] for part in parts] == [
        *(f"{n}) goes on." for n in range(2, 6)),
        "",
    ]
    whole = await agent.call("get_memory", memory_id=known, max_chars=60_000)
    assert (whole["memory"]["content"], "parts" in whole) == (content, False)
    for wrong, told in (
        (0, "whole number"),
        (9, "part 9 does not exist: the content has 5 parts."),
        ("x", "whole number"),
    ):
        refused = await agent.call("get_memory", memory_id=known, part=wrong)
        assert (refused["status"], refused["field"]) == ("invalid_parameter", "part")
        assert told in refused["error"]
    short = (await agent.call("store_memory", content="Ada likes tea"))["stored"]["id"]
    assert (await agent.call("get_memory", memory_id=short, part=1))["parts"] == 1


@pytest.mark.promise("KN-9")
async def test_a_question_carries_the_reply_that_followed_in_its_thread(agent: Agent) -> None:
    said = [
        ("user", "Which database shall I take for the tide tables of the harbour?"),
        ("user", "It has to run on the small machine."),
        ("assistant", f"{' '.join(FILLER)} Take SQLite for the tide tables: one file, no server. {' '.join(FILLER)}"),
        ("user", "Good, then SQLite it is."),
    ]
    ids = [
        (await agent.call("store_memory", content=text, speaker=speaker, thread="tides", position=place))["stored"][
            "id"
        ]
        for place, (speaker, text) in enumerate(said)
    ]
    await agent.store("Please paint the fence green", thread="garden", speaker="Ada")
    done = await agent.call("store_memory", content="The fence is painted", thread="garden", speaker="Ben")
    found = {memory["content"]: memory for memory in await agent.search("database for the tide tables", limit=4)}
    reply = found[said[0][1]]["followed_by"]
    assert (reply["id"], reply["speaker"]) == (ids[2], "assistant")
    assert "Take SQLite for the tide tables: one file, no server." in reply["passage"]
    assert len(reply["passage"]) <= limits.FOLLOWED_CHARS
    assert all("followed_by" not in memory for text, memory in found.items() if text != said[0][1])
    asked = "Please paint the fence green"
    fence = {memory["content"]: memory for memory in await agent.search(asked, limit=2)}
    known = done["stored"]["id"]
    assert fence[asked]["followed_by"] == {"id": known, "speaker": "Ben", "passage": "The fence is painted"}
    await agent.call("forget_memory", memory_id=known)
    assert "followed_by" not in (await agent.search(asked, limit=1, detail="full"))[0]
