"""The sector model as workers use it, how good it is on texts of another hand, and what is a standing wish to it."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders import minilm
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.minilm import Arithmetic, MiniLmEmbedder
from engramq.workers.sectors.forms import only_asks
from engramq.workers.sectors.model import WEIGHTS, Heads, SectorGuess, SectorModel, UnusableVectors, UnusableWeights
from engramq.workers.sectors.wishes import WishModel, is_general
from tools.measure_confidence import expected_error
from tools.sectors import corpus, evaluation, train
from tools.sectors.evaluation import Data

MINILM = minilm.MODEL_SHA256
LEAST_TALK, FURTHEST = 0.85, 0.05
TALK = [
    "Thank you so much, you made my day!",
    "haha no way",
    "And how was your weekend?",
    "good night everyone",
    "Can you make it shorter?",
]
PLAIN = {
    "I'm so relieved that the surgery is over.": Sector.EMOTIONAL,
    "Yesterday the plumber came and took the old boiler away.": Sector.EPISODIC,
    "The user is a dentist in Bergen.": Sector.SEMANTIC,
    "To rotate the logs, stop the writer, move the file and start the writer again.": Sector.PROCEDURAL,
    "Looking back, I realise that I was rarely honest about deadlines.": Sector.REFLECTIVE,
}


@pytest.fixture(scope="module")
async def plain(anyio_backend: str) -> Vectors:
    return await _embed(list(PLAIN))


@pytest.fixture(scope="module")
def model() -> SectorModel:
    return SectorModel.load()


async def _embed(texts: Sequence[str]) -> Vectors:
    embedder = MiniLmEmbedder(arithmetic=Arithmetic.FLOAT32)
    vectors = await embedder.embed(texts)
    await embedder.aclose()
    return vectors


@pytest.mark.long
async def test_turns_of_topics_never_learned_from_reach_the_target_and_its_confidence(model: SectorModel) -> None:
    turns = corpus.held_out_turns()
    guesses = model.classify_many([turn.text for turn in turns], await train.embed(turns), embedder_sha256=MINILM)
    right = np.array(
        [(guess.sector or corpus.NONE) in item.sectors for guess, item in zip(guesses, turns, strict=True)]
    )
    confidence = np.array([guess.confidence for guess in guesses])
    error = expected_error(confidence, right)
    assert (right.mean() >= LEAST_TALK, error <= FURTHEST) == (True, True), (right.mean(), error)


async def test_small_talk_and_bare_questions_fit_no_sector(model: SectorModel) -> None:
    guesses = model.classify_many(TALK, await _embed(TALK), embedder_sha256=MINILM)
    assert [guess.sector for guess in guesses] == [None] * len(TALK)
    assert [guess.sector for guess in model.classify_wording(TALK)] == [None] * len(TALK)


@pytest.mark.long
async def test_shipped_weights_are_what_the_texts_give(model: SectorModel) -> None:
    """Of the head without vectors, which take a minute to make: `python -m tools.sectors.train --check` makes all."""
    data = Data.of(texts := corpus.learned_texts(), np.empty((len(texts), 0), dtype=np.float32))
    standard, (_, shipped) = evaluation.standard_of(data, data.everything), model.heads
    fitted = Heads(evaluation.fitted(data, data.everything, standard, train.WORDING), shipped.curve)
    features = data.features(data.everything, standard, train.WORDING)
    furthest = np.abs(fitted.tell(features).chances - shipped.tell(features).chances).max()
    assert furthest < 1e-2, "run python -m tools.sectors.train"


async def test_plain_texts_get_their_sector(plain: Vectors, model: SectorModel) -> None:
    guesses = model.classify_many(list(PLAIN), plain, embedder_sha256=MINILM)
    assert [guess.sector for guess in guesses] == list(PLAIN.values())
    assert all(0.5 < guess.confidence <= 1.0 for guess in guesses)


async def test_one_text_gets_the_same_alone_and_in_company(plain: Vectors, model: SectorModel) -> None:
    together = model.classify_many(list(PLAIN), plain, embedder_sha256=MINILM)
    alone = [
        model.classify(content, vector, embedder_sha256=MINILM) for content, vector in zip(PLAIN, plain, strict=True)
    ]
    assert [guess.sector for guess in alone] == [guess.sector for guess in together]
    assert [guess.confidence for guess in alone] == pytest.approx([guess.confidence for guess in together])


async def test_vectors_stored_in_half_precision_give_the_same_sector(plain: Vectors, model: SectorModel) -> None:
    halved = plain.astype(np.float16).astype(np.float32)
    exact = model.classify_many(list(PLAIN), plain, embedder_sha256=MINILM)
    stored = model.classify_many(list(PLAIN), halved, embedder_sha256=MINILM)
    assert [guess.sector for guess in stored] == [guess.sector for guess in exact]
    assert [guess.confidence for guess in stored] == pytest.approx([guess.confidence for guess in exact], abs=1e-2)


async def test_vectors_of_another_embedder_are_refused_though_they_have_the_same_shape(model: SectorModel) -> None:
    other = HashEmbedder()
    vectors = await other.embed(list(PLAIN))
    assert not model.knows(other.spec.sha256)
    with pytest.raises(UnusableVectors, match="classify the wording alone"):
        model.classify_many(list(PLAIN), vectors, embedder_sha256=other.spec.sha256)


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((1, 768), dtype=np.float32),
        np.zeros((2, 384), dtype=np.float32),
        np.zeros(384, dtype=np.float32),
        np.full((1, 384), np.nan, dtype=np.float32),
        np.full((1, 384), np.inf, dtype=np.float32),
    ],
)
async def test_anything_but_one_finite_row_per_text_is_refused(vectors: Vectors, model: SectorModel) -> None:
    with pytest.raises(UnusableVectors, match="expected finite vectors of shape"):
        model.classify_many(["text"], vectors, embedder_sha256=MINILM)


async def test_wording_alone_suffices_for_plain_texts(model: SectorModel) -> None:
    assert [guess.sector for guess in model.classify_wording(list(PLAIN))] == list(PLAIN.values())


@pytest.mark.parametrize("content", ["", " \n", "!!!", "12:30", "😀"])
async def test_a_text_without_a_word_fits_no_sector_and_is_unsure(content: str, model: SectorModel) -> None:
    nothing = SectorGuess(None, 0.5)
    assert model.classify_wording([content]) == [nothing]
    assert model.classify(content, np.ones(384, dtype=np.float32), embedder_sha256=MINILM) == nothing


async def test_no_text_gives_no_guess(model: SectorModel) -> None:
    assert model.classify_many([], np.empty((0, 384), dtype=np.float32), embedder_sha256=MINILM) == []
    assert model.classify_wording([]) == []


async def test_weights_survive_writing_and_reading_and_are_small(tmp_path: Path, model: SectorModel) -> None:
    model.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == WEIGHTS.read_bytes()
    assert WEIGHTS.stat().st_size < 100_000
    assert model.embedder_sha256 == MINILM


async def test_missing_and_damaged_weights_are_named(tmp_path: Path) -> None:
    whole = WEIGHTS.read_bytes()
    path = tmp_path / "weights.npz"
    with pytest.raises(UnusableWeights, match="FileNotFoundError"):
        SectorModel.load(path)
    for damaged in (b"", b"no archive", whole[: len(whole) // 2], whole[:200] + b"\xff" * 400 + whole[600:]):
        path.write_bytes(damaged)
        with pytest.raises(UnusableWeights, match=r"weights\.npz"):
            SectorModel.load(path)


async def test_weights_of_other_cues_are_refused(tmp_path: Path) -> None:
    with np.load(WEIGHTS) as file:
        content = {name: file[name] for name in file.files}
    content["cues"] = content["cues"][::-1]
    np.savez(tmp_path / "other.npz", allow_pickle=False, **content)
    with pytest.raises(UnusableWeights, match="made for other cues"):
        SectorModel.load(tmp_path / "other.npz")


WISHES = (
    "Always list the allergens when I ask about dishes.",
    "From now on use spaces in this project.",
    "I prefer trains over planes.",
    "Never send anything without asking me.",
    "Please always answer in Italian.",
    "The user prefers short replies.",
)
NONE = (
    "I have never been to Italy.",
    "Which one do you prefer?",
    "My brother always burns the toast.",
    "Can you send me the file?",
    "They call me every week about insurance.",
    "Does the landlord prefer cash?",
)


@pytest.mark.promise("PR-6")
def test_words_alone_tell_plain_wishes_from_what_looks_like_one() -> None:
    model = WishModel.load()
    assert model.are_wishes(WISHES, None) == [True] * len(WISHES)
    assert model.are_wishes(NONE, None) == [False] * len(NONE)


def test_a_wish_about_how_to_answer_is_general_unless_it_names_an_occasion() -> None:
    for content, general in [
        ("Always answer in Italian.", True),
        ("Please use tabs.", True),
        ("The user prefers tabs over spaces in Go files.", False),
        ("Indent with two spaces in YAML.", False),
        ("Keep comments short in this repository.", False),
        ("Please keep answers short in German.", True),
        ("Always give the unit when I ask about sizes.", False),
        ("I prefer trains over planes.", False),
        ("Write commit messages in English.", False),
        ("Antworte immer auf Deutsch.", True),
        ("Réponds toujours en phrases courtes.", True),
        ("Usa siempre comillas dobles.", False),
    ]:
        assert is_general(content) is general


ABROAD = tomllib.loads((Path(__file__).parent / "wishes_abroad.toml").read_text("utf-8"))


@pytest.mark.promise("PR-6")
@pytest.mark.parametrize("language", ["german", "french", "spanish"])
@pytest.mark.parametrize("by_vector", [False, True], ids=["words", "vectors"])
async def test_wishes_of_other_languages_are_told_as_surely_as_english_ones(language: str, *, by_vector: bool) -> None:
    wishes, others = (ABROAD[language][kind].split("\n")[:-1] for kind in ("wishes", "others"))
    assert (len(wishes), len(others)) == (40, 60)
    contents = [*wishes, *others]
    vectors = await MiniLmEmbedder().embed(contents) if by_vector else None
    told = WishModel.load().are_wishes(contents, vectors)
    right, false = sum(told[:40]), sum(told[40:])
    assert right >= 0.9 * (right + false), [other for other, is_told in zip(others, told[40:], strict=True) if is_told]
    assert right >= 36, [wish for wish, is_told in zip(wishes, told, strict=False) if not is_told]


@pytest.mark.promise("PR-6")
async def test_a_question_is_no_wish_and_a_request_in_its_form_may_be_one() -> None:
    questions, requests = (ABROAD["english"][kind].split("\n")[:-1] for kind in ("others", "wishes"))
    vectors = await MiniLmEmbedder().embed(questions)
    assert WishModel.load().are_wishes(questions, vectors) == [False] * len(questions)
    assert [only_asks(request) for request in requests] == [False] * len(requests)
