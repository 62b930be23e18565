"""What a question finds by its letters: parts of identifiers, paths and versions, in one normal form at every door."""

import unicodedata

import pytest

from engramq.workers.search import copies
from tests.scenarios.stage import Agent
from tests.scenarios.test_import_memories import receipts_of

TOLD = {
    "Ticket OPS-2291 is about the nightly export": ("2291", "OPS 2291", "ops-2291"),
    "Ticket OPS-2292 is about the nightly import": ("2292", "OPS 2292"),
    "We patched CVE-2024-31337 on all hosts": ("31337", "CVE-2024-31337"),
    "The retry lives in src/billing/charge.py since May": ("charge.py", "src/billing", "billing/charge.py"),
    "The gateway was upgraded to v0.28.0 of the client": ("0.28.0",),
    "The runner needs python3.11 and nothing newer": ("python 3.11", "python3"),
    "Write to ada@mail.example.org for access": ("mail.example.org", "example.org", "ada@mail.example.org"),
    "The call getUserName takes the budget max_retry_count": ("user name", "retry_count", "getUserName"),
    "RFC-017 says how errors are worded": ("RFC-017", "RFC 017"),
    "RFC-018 says how logs are worded": ("RFC-018",),
    "Her favourite language is C# by far": ("C#",),
    "The old plug-in was made for .NET on Windows": (".NET",),
    "The proxy runs as ds/haproxy at 10.20.30.42": ("ds/haproxy", "10.20.30.42", "haproxy"),
    "The proxy of the test floor is at 10.20.30.43": ("10.20.30.43",),
    "The bus moves 12 GB/s at most": ("GB/s",),
    "PostgreSQL-18 comes on 2026-11-28 to the lab": ("PostgreSQL 18", "2026-11-28"),
    "The laptops are ordered by IT every spring": ("IT",),
    "My father saw The Who at Leeds": ("The Who",),
}


@pytest.mark.promise("KN-11")
@pytest.mark.parametrize("searches", [1, 10_000], ids=["in the copy", "in the tables"])
async def test_parts_of_identifiers_paths_and_versions_are_words(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, searches: int
) -> None:
    monkeypatch.setattr(copies, "SEARCHES_FIRST", searches)  # before a namespace is copied
    others = [f"On day {day} of the trip they walked {day * 7} miles along river {day * 37}" for day in range(300, 320)]
    records = [{"content": text} for text in [*TOLD, *others]]
    await receipts_of(agent, await agent.call("import_memories", records=records))
    await agent.found("the trip")
    first = {
        question: (await agent.found(question, min_relevance=0, limit=1))[0]
        for asked in TOLD.values()
        for question in asked
    }
    assert first == {question: text for text, asked in TOLD.items() for question in asked}


@pytest.mark.promise("KN-11")
async def test_one_name_in_two_normal_forms_is_one_name_at_every_door(agent: Agent) -> None:
    composed, apart = (unicodedata.normalize(form, "Zoë Müller") for form in ("NFC", "NFD"))
    assert composed != apart
    said = dict.fromkeys(("project", "thread", "speaker", "external_id"), apart)
    stored = await agent.store(f"{apart} likes tea", tags=[apart, composed], metadata={apart: apart}, **said)
    assert {stored[name] for name in said} == {composed}
    assert (stored["content"], stored["tags"]) == (f"{composed} likes tea", [composed])
    # What stands in an object may be somebody else's bytes; its names are asked for by others.
    assert stored["metadata"] == {composed: apart}
    for name in (composed, apart):
        for _ in range(3):
            found = await agent.found(name, project=name, project_only=True, thread=name, tags=[name], min_relevance=0)
            assert found == [stored["content"]]
        assert await agent.recent(external_id=name, project=name) == [stored["content"]]
    rows = [{"content": f"{apart} likes coffee", "external_id": apart, "project": apart}]
    (receipt,) = await receipts_of(agent, await agent.call("import_memories", records=rows, on_duplicate="update"))
    assert (receipt["status"], receipt["memory_id"]) == ("updated", stored["id"])
    first, second = [
        await agent.call("graph_add_node", label="Person", name=name, properties={name: 1})
        for name in (composed, apart)
    ]
    assert first["node_id"] == second["node_id"]
