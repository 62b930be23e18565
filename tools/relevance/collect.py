"""Ask every question of every world, and keep the candidates that a search finds, with vectors and by words alone."""

import asyncio
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import click
import msgspec
import numpy as np

from bench.common import PrivateStack, private_stack
from engramq.schemas.vocabulary import EVERY_PROJECT, Partition
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import HalfBytes, Sizes, pack
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.queue.background import Activity
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, as_array
from engramq.workers.upkeep.pieces import Pieces
from tools.loading import Loaded, load
from tools.relevance.worlds import Asked, World

ASKED_AT: Final = datetime(2026, 11, 1, tzinfo=UTC)
BATCH: Final = 64
_ID: Final = (0x0190_0000_0000 << 80) | (7 << 76) | (2 << 62)  # of a UUIDv7; the place in its world follows


class QuestionCandidates(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The candidates of one question; their ids are places of memories in the world, in order of storing."""

    asked: Asked
    expects: list[str]  # as ids
    by_vectors: Candidates
    by_words: Candidates


class Collected(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """All that was found in one world."""

    name: str
    corpus: str
    group: str
    found: list[QuestionCandidates]


def read(worlds: Sequence[World], cache: Path) -> list[Collected]:
    """Return what was collected of these worlds, in the order of their files."""
    files = sorted(_file(cache, world) for world in worlds)
    decoder = msgspec.msgpack.Decoder(Collected, dec_hook=as_array)
    return [decoder.decode(zlib.decompress(file.read_bytes())) for file in files]


def collect(worlds: Sequence[World], cache: Path) -> None:
    """Write a file for each world that has none yet."""
    missing = {file: world for world in worlds if not (file := _file(cache, world)).exists()}
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        with private_stack() as stack:
            asyncio.run(_collect(missing, stack))


async def _collect(missing: Mapping[Path, World], stack: PrivateStack) -> None:
    async with await Store.open(stack.database_url) as store, BatchingEmbedder(MiniLmEmbedder()) as embedder:
        vectorizer = Vectorizer(embedder, store)
        model_id = await vectorizer.running_model_id()
        # All at once, since the vector index is made anew behind them.
        vectors = await _vectors(vectorizer, missing.values())
        rows = [row for world in missing.values() for row in _rows(vectors, world)]
        await load(stack.owner_url, model_id, rows, linked=True)
        await Pieces(store=store, vectorizer=vectorizer, activity=Activity(), stopping=asyncio.Event()).run()
        for file, world in missing.items():
            found = [await _ask(store, vectorizer, world, asked) for asked in world.asked]
            kept = Collected(name=world.name, corpus=world.corpus, group=world.group, found=found)
            file.write_bytes(zlib.compress(msgspec.msgpack.encode(kept, enc_hook=lambda column: column.tolist())))
            click.echo(f"{world.name}: {len(world.memories)} memories, {len(found)} questions", err=True)


def _file(cache: Path, world: World) -> Path:
    return cache / f"{world.name}-{zlib.crc32(msgspec.json.encode(world)):08x}.world"


async def _vectors(vectorizer: Vectorizer, worlds: Iterable[World]) -> dict[str, HalfBytes]:
    """Return the vector of each text, which is made once however many worlds have it."""
    texts = list(dict.fromkeys(row["content"] for world in worlds for row in world.memories))
    parts = [await vectorizer.vectors(texts[start : start + BATCH], bulk=True) for start in range(0, len(texts), BATCH)]
    return {text: pack(vector) for text, vector in zip(texts, np.concatenate(parts), strict=True)}


def _rows(vectors: Mapping[str, HalfBytes], world: World) -> list[Loaded]:
    """Return the memories of a world with their vectors."""
    return [
        Loaded(
            id=_id(world, place), namespace=world.name, content=row["content"], embedding=vectors[row["content"]],
            external_id=row["external_id"], speaker=row.get("speaker"),
            occurred_at=datetime.fromisoformat(row["occurred_at"]) if "occurred_at" in row else None,
            thread=row.get("thread"), position=row.get("position"), tags=tuple(row.get("tags", ())),
            project=row.get("project"),
        )
        for place, row in enumerate(world.memories)
    ]  # fmt: skip


def _id(world: World, place: int) -> UUID:
    return UUID(int=_ID | (zlib.crc32(world.name.encode()) << 24) | place)


async def _ask(store: Store, vectorizer: Vectorizer, world: World, asked: Asked) -> QuestionCandidates:
    question = Question(asked.query, ASKED_AT)
    embedding = await vectorizer.try_read(asked.query, question.names)
    project = EVERY_PROJECT if asked.project is None else asked.project
    filters = Filters(partitions=(Partition.TRUSTED,), project=project, tags=asked.tags)
    places = {str(_id(world, place)): str(place) for place in range(len(world.memories))}
    by_key = {row["external_id"]: str(place) for place, row in enumerate(world.memories)}

    async def ask(tx: Transaction) -> tuple[Candidates, Candidates]:
        sizes = Sizes()
        both = await find_candidates(tx, sizes, question, embedding, filters)
        return both, await find_candidates(tx, sizes, question, None, filters)

    found = await store.read(world.name, ask)
    by_vectors, by_words = (
        msgspec.structs.replace(candidates, ids=[places[memory_id].zfill(6) for memory_id in candidates.ids])
        for candidates in found
    )
    expects = [by_key[key].zfill(6) for key in asked.expects if key in by_key]
    return QuestionCandidates(asked=asked, expects=expects, by_vectors=by_vectors, by_words=by_words)
