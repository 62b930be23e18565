"""The bundled model: its vectors, the runs in which it embeds, and what a question asks apart from the names in it."""

import hashlib
import logging
import os
import shutil
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import anyio
import numpy as np
import pytest
from anyio import to_thread
from hypothesis import given
from hypothesis import strategies as st

from engramq.workers.db.vectors import unpack
from engramq.workers.embedders import minilm
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.minilm import DIMENSIONS, Arithmetic, LoadedMiniLm, MiniLmEmbedder
from engramq.workers.embedders.onnx_session import TEXTS_PER_RUN, TOKENS_A_RUN_COSTS, TOKENS_PER_RUN, split_in_runs
from engramq.workers.embedders.vectorizer import remove_directions

BOUND_S = 30.0


@pytest.fixture(scope="module", params=list(Arithmetic))
async def embedder(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncIterator[MiniLmEmbedder]:
    model = MiniLmEmbedder(arithmetic=request.param)
    await model.warm()
    yield model
    await model.aclose()


async def test_meaning_brings_texts_near_without_a_shared_word(embedder: MiniLmEmbedder) -> None:
    question, answer, other = await embedder.embed(
        ["Which pet does she own?", "Melanie adopted a kitten last week", "The invoice is due on Friday"]
    )
    assert question @ answer > question @ other + 0.15


async def test_the_vectors_are_those_of_the_published_model(embedder: MiniLmEmbedder) -> None:
    # The unquantised model's first numbers for this text, as computed in float64 by builder/reference.py.
    (vector,) = await embedder.embed(["This is an example sentence"])
    away = 0.02 if embedder.spec.sha256 == minilm.INT8_SHA256 else 0.004
    np.testing.assert_allclose(vector[:4], [0.0677, 0.0635, 0.0487, 0.0793], atol=away)


async def test_a_short_text_is_read_at_once_where_that_is_quick(embedder: MiniLmEmbedder) -> None:
    now = embedder.embed_now("Which pet does she own?")
    if embedder.spec.sha256 != minilm.INT8_SHA256:
        assert now is None
        return
    assert now is not None
    assert np.array_equal(now, await embedder.embed(["Which pet does she own?"]))
    assert embedder.embed_now("word " * minilm.NOW_CHARS) is None
    assert MiniLmEmbedder(arithmetic=Arithmetic.INT8).embed_now("not loaded") is None


@pytest.mark.long
async def test_a_text_has_the_same_vector_alone_and_in_any_company(embedder: MiniLmEmbedder) -> None:
    texts = [f"Turn {number}: " + "she talked about pottery and the race " * (number % 9) for number in range(70)]
    together = await embedder.embed(texts)
    alone = np.concatenate([await embedder.embed([text]) for text in texts])
    assert together.shape == (70, DIMENSIONS)
    assert together.dtype == np.float32
    assert np.einsum("ij,ij->i", together, alone).min() > 0.999999
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


READ = ["\ud800", "日本語", "word " * 6_000, "the 🦊 fox runs", "שלום עולם", "안녕하세요", "Привет мир", "!!!"]
UNREAD = [
    "", " ", "\x00", "🙂" * 50, "🦊", "x" * 32_768,
    "การประชุมจัดที่กรุงเทพ", "ສະບາຍດີ", "សួស្តី", "မင်္ဂလာပါ", "ሰላም ዓለም",
    "ሰላም ዓለም ሰላም Rome",
]  # fmt: skip


@pytest.mark.promise("KN-11")
async def test_any_text_gets_a_vector_but_zeros_where_most_tokens_are_unknown(embedder: MiniLmEmbedder) -> None:
    vectors = await embedder.embed([*READ, *UNREAD])
    np.testing.assert_allclose(np.linalg.norm(vectors[: len(READ)], axis=1), 1.0, atol=1e-5)
    assert not vectors[len(READ) :].any()
    for text in UNREAD[:3]:
        assert not (await embedder.embed([text], questions=True)).any()


async def test_text_beyond_256_tokens_is_not_seen(embedder: MiniLmEmbedder) -> None:
    seen = "apple " * 254
    beyond, at_the_limit, within = await embedder.embed([seen + "banana", seen, "apple " * 200 + "banana"])
    assert beyond @ at_the_limit > 0.999999
    assert within @ at_the_limit < 0.9999


async def test_the_event_loop_turns_while_the_model_runs(embedder: MiniLmEmbedder) -> None:
    turns = 0
    done = anyio.Event()

    async def count() -> None:
        nonlocal turns
        while not done.is_set():
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await embedder.embed(["a long text about nothing " * 40] * 2)
        done.set()
    assert turns > 50


async def test_callers_at_the_same_time_each_get_their_own(embedder: MiniLmEmbedder) -> None:
    expected = await embedder.embed([f"caller {number}" for number in range(6)])
    found: dict[int, float] = {}

    async def ask(number: int) -> None:
        (vector,) = await embedder.embed([f"caller {number}"])
        found[number] = float(vector @ expected[number])

    with anyio.fail_after(BOUND_S):
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(ask, number)
    assert min(found[number] for number in range(6)) > 0.999999


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"cannot read .*tokenizer\.json"):
        await MiniLmEmbedder(folder=tmp_path).warm()


async def test_a_damaged_model_file_is_refused(tmp_path: Path) -> None:
    whole = await to_thread.run_sync((minilm.FOLDER / minilm.MODEL_FILE).read_bytes)
    (tmp_path / minilm.MODEL_FILE).write_bytes(whole[:-1])
    (tmp_path / minilm.TOKENIZER_FILE).write_bytes((minilm.FOLDER / minilm.TOKENIZER_FILE).read_bytes())
    with pytest.raises(EmbedderUnavailable, match="damaged"):
        await MiniLmEmbedder(folder=tmp_path).warm()


async def test_a_file_that_the_runtime_cannot_read_is_a_failure_of_the_embedder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / minilm.MODEL_FILE).write_bytes(b"not a model")
    (tmp_path / minilm.TOKENIZER_FILE).write_bytes((minilm.FOLDER / minilm.TOKENIZER_FILE).read_bytes())
    monkeypatch.setattr(minilm, "MODEL_SHA256", hashlib.sha256(b"not a model").hexdigest())
    with pytest.raises(EmbedderUnavailable, match="onnxruntime failed: Invalid"):
        await MiniLmEmbedder(folder=tmp_path).warm()


async def test_a_run_that_fails_is_a_failure_of_the_embedder_and_the_next_one_works(embedder: MiniLmEmbedder) -> None:
    with pytest.raises(EmbedderUnavailable, match="onnxruntime failed: InvalidArgument"):
        await embedder._model.run(lambda model: model.asked.run([[10_000_000]]))
    assert (await embedder.embed(["still there"])).shape == (1, DIMENSIONS)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in (minilm.MODEL_FILE, minilm.INT8_FILE, minilm.TOKENIZER_FILE):
        shutil.copy(minilm.FOLDER / name, tmp_path)
    return tmp_path


def timed(monkeypatch: pytest.MonkeyPatch, **ms: float) -> None:
    monkeypatch.setattr(LoadedMiniLm, "run_ms", lambda session: ms[session.arithmetic])
    monkeypatch.setattr(minilm, "multiplies_int8", lambda: False)


async def test_a_new_store_begins_with_what_is_faster_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for int8_ms, expected in ((3.0, Arithmetic.INT8), (9.0, Arithmetic.FLOAT32)):
        timed(monkeypatch, float32=10.0, int8=int8_ms)
        model = MiniLmEmbedder()
        await model.warm()
        assert model.spec.sha256 == expected.sha256
        await model.aclose()


async def test_a_new_store_on_a_cpu_that_multiplies_int8_loads_that_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loaded, load = [], LoadedMiniLm.__init__

    def note(session: LoadedMiniLm, folder: Path, arithmetic: Arithmetic) -> None:
        loaded.append(arithmetic)
        load(session, folder, arithmetic)

    monkeypatch.setattr(LoadedMiniLm, "__init__", note)
    monkeypatch.setattr(minilm, "multiplies_int8", lambda: True)
    model = MiniLmEmbedder()
    await model.warm()
    assert loaded == [Arithmetic.INT8]
    assert [vars(record)["arithmetic"] for record in caplog.records if record.message == "Arithmetic chosen"] == loaded
    assert model.spec.sha256 == Arithmetic.INT8.sha256
    assert model.adopt(Arithmetic.FLOAT32.sha256)
    await model.warm()
    assert loaded == [Arithmetic.INT8, Arithmetic.FLOAT32], "a store that began so goes on, and int8 answers questions"
    await model.aclose()


@pytest.mark.parametrize(
    ("says", "expected"),
    [("flags\t\t: fpu avx512_vnni xsave", True), ("flags : fpu avx2", False), ("model name : avx_vnni", False)],
)
def test_the_cpu_says_whether_it_multiplies_int8(monkeypatch: pytest.MonkeyPatch, says: str, *, expected: bool) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _path, **_: f"processor : 0\n{says}\n")
    assert minilm.multiplies_int8() is expected


async def test_a_store_goes_on_as_it_began_and_only_questions_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, float32=10.0, int8=3.0)
    text = ["Which pet does she own?"]
    exact, quick, model = (MiniLmEmbedder(arithmetic=item) for item in (Arithmetic.FLOAT32, Arithmetic.INT8, None))
    assert model.adopt(Arithmetic.FLOAT32.sha256)
    assert not model.adopt("of another model")
    np.testing.assert_array_equal(await model.embed(text), await exact.embed(text))
    np.testing.assert_array_equal(await model.embed(text, questions=True), await quick.embed(text))
    assert model.spec == exact.spec
    assert model.adopt(Arithmetic.INT8.sha256)
    np.testing.assert_array_equal(await model.embed(text), await quick.embed(text))
    for item in (exact, quick, model):
        await item.aclose()


async def test_without_a_whole_int8_file_float32_serves_and_the_log_says_so(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (copied / minilm.INT8_FILE).write_bytes(b"damaged")
    model = MiniLmEmbedder(folder=copied)
    await model.warm()
    assert model.spec.sha256 == minilm.MODEL_SHA256
    (record,) = [item for item in caplog.records if item.levelname == "WARNING"]
    assert "float32" in record.message
    assert "damaged" in record.__dict__["reason"]
    await model.aclose()
    begun = MiniLmEmbedder(folder=copied)
    begun.adopt(minilm.INT8_SHA256)
    with pytest.raises(EmbedderUnavailable, match="int8 model, whose file cannot be used"):
        await begun.embed(["never vectors of another model"])
    assert (await begun.embed(["which are compared, not kept"], questions=True)).shape == (1, DIMENSIONS)
    assert len([item for item in caplog.records if item.levelname == "WARNING"]) == 2  # said once by each
    await begun.aclose()


async def test_as_many_texts_are_computed_at_once_as_there_are_cores(embedder: MiniLmEmbedder) -> None:
    limits = embedder.spec.batches
    assert limits.alone
    assert limits.concurrent == len(os.sched_getaffinity(0))


LENGTHS = st.lists(st.integers(0, 256) | st.sampled_from([2, 12, 256, 1_025, 5_000]), max_size=100)


def fits(lengths: list[int]) -> bool:
    return len(lengths) == 1 or (len(lengths) <= TEXTS_PER_RUN and len(lengths) * max(lengths) <= TOKENS_PER_RUN)


def cost(runs: list[list[int]]) -> int:
    return sum(TOKENS_A_RUN_COSTS + len(run) * max(run) for run in runs)


def as_full_as_can_be(lengths: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for length in sorted(lengths):
        if runs and fits([*runs[-1], length]):
            runs[-1].append(length)
        else:
            runs.append([length])
    return runs


@given(LENGTHS)
def test_every_row_is_in_one_run_shortest_first_and_each_run_within_the_bounds(lengths: list[int]) -> None:
    runs = list(split_in_runs(lengths))
    rows = [row for run in runs for row in run]
    assert sorted(rows) == list(range(len(lengths)))
    assert all(lengths[item] <= lengths[other] for item, other in pairwise(rows))
    assert all(run and fits([lengths[row] for row in run]) for run in runs)


@given(LENGTHS)
def test_runs_cost_no_more_than_filling_them_up_or_one_for_each_text(lengths: list[int]) -> None:
    made = cost([[lengths[row] for row in run] for run in split_in_runs(lengths)])
    assert made <= cost(as_full_as_can_be(lengths))
    assert made <= cost([[length] for length in lengths])


async def test_without_its_name_a_question_is_nearer_to_what_it_asks_than_to_who_else_is_greeted() -> None:
    embedder = MiniLmEmbedder()
    asked, name, greeting, answer = await embedder.embed(
        ["When did Caroline go to the support group?", "Caroline", "Hey Caroline! How have you been?",
         "I went there yesterday, and the others in the circle were so kind to me."]
    )  # fmt: skip
    apart = remove_directions(asked, [name])
    assert apart is not None
    rest = unpack(apart)
    assert abs(rest @ name) < 1e-3
    assert asked @ greeting > asked @ answer
    assert rest @ answer > rest @ greeting
    assert np.linalg.norm(rest) == pytest.approx(1, abs=1e-3)
    await embedder.aclose()


def test_nothing_is_left_of_a_question_that_is_its_name() -> None:
    ada = np.array([1.0, 0.0], dtype=np.float32)
    assert remove_directions(ada, [ada]) is None


def test_names_stay_in_where_it_was_not_measured_that_they_drown_the_rest() -> None:
    assert MiniLmEmbedder().spec.names_drown
    assert not HashEmbedder().spec.names_drown
