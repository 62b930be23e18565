"""Texts that try to be something else than texts."""

import pytest

from engramq.schemas.commands import (
    BatchImported,
    ForgetMemory,
    Forgotten,
    ImportBatch,
    ImportRecord,
    MemoryChanged,
    UpdateMemory,
)
from engramq.schemas.envelope import Principal
from engramq.schemas.fields import NOT_IN_NAMES
from engramq.schemas.vocabulary import ALL_SCOPES
from tests.workers.conftest import World

HOSTILE = [
    "'; drop table memories; --",
    "a' or '1'='1",
    "%(namespace)s %s %% %",
    "{dimensions} {visible}",
    "$1 $$ $tag$ \\' \\\\",
    "foo & | ! <-> :* ( ' )",
    "\u202eevil\u200b\ufeff",
    "😀" * 50,
    "x" * 3_000,
]


@pytest.mark.promise("SE-5")
@pytest.mark.parametrize("text", HOSTILE)
async def test_every_text_comes_back_as_it_was_and_does_nothing_else(world: World, text: str) -> None:
    name = NOT_IN_NAMES.sub("", text[:200])  # which contents may hold
    principal = Principal(name=name, scopes=ALL_SCOPES)
    stored = await world.keep(
        text,
        namespace=name,
        principal=principal,
        source_type=name,
        speaker=name,
        thread=name,
        external_id=name,
        metadata={name: [text]},
    )
    memory = stored.stored
    assert (memory.content, memory.speaker, memory.thread, memory.external_id) == (text, name, name, name)
    assert (memory.metadata, memory.created_by, memory.source_type) == ({name: [text]}, name, name)
    envelope = {"namespace": name, "principal": principal}
    change = UpdateMemory(memory_id=memory.id, speaker=name, thread=name, metadata={name: text})
    updated = await world.ask(MemoryChanged, change, **envelope)
    assert updated.memory is not None
    assert (updated.memory.metadata, updated.memory.speaker) == ({name: text}, name)
    same = ImportRecord(content=text, external_id=name, source_type=name)
    batch = ImportBatch(records=(same, ImportRecord(content=text, speaker=name)))
    imported = await world.ask(BatchImported, batch, **envelope, idempotency_key=name)
    assert (imported.skipped, imported.stored) == (1, 1)
    for unknown in (text, name):
        forget = ForgetMemory(memory_id=unknown, reason=text)
        assert (await world.ask(Forgotten, forget, **envelope)).status == "not_found"
    forgotten = await world.ask(Forgotten, ForgetMemory(memory_id=memory.id, reason=text), **envelope)
    assert forgotten.status == "archived"
    assert [row["reason"] for row in world.rows("select reason from audit_log where action = 'archive'")] == [text]
    assert world.count("memories") == 2
