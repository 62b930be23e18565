"""The pure part of search: whatever the candidates, an order that means something."""

import math
import random
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import Partition, Sector
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import EQUAL_SCORES, Candidates, Measure, Ranked, rank_by_score, rank_by_similarity
from engramq.workers.search.search import is_repeated

QUESTIONS = [
    "", "?", "When did Ada move to Graz in May 2023?", "What did bob say?", "How long ago was that",
    "Ada and Bob", "May I", "What did Bob tell Ada?",
]  # fmt: skip
speakers = st.sampled_from([None, "Ada", "Bob", "ada", "?", ""])
days = st.sampled_from([None, date(2023, 5, 1), date(2022, 1, 31)])
candidate_fields = st.fixed_dictionaries(
    {
        "trusted": st.booleans(),
        "lexical": st.none() | st.floats(0, 1e6),
        "similarity": st.none() | st.floats(-1, 1),
        "thread": st.sampled_from([None, "a", "b"]),
        "position": st.none() | st.integers(0, 5),
        "speaker": speakers,
        "day": days,
        "tells_of_day": st.booleans(),
        "asks": st.booleans(),
        "tells_self": st.booleans(),
        "words": st.integers(0, 200),
    }
)


EMPTY: dict[str, Any] = {
    "trusted": True, "lexical": None, "similarity": None, "thread": None, "position": None, "speaker": None,
    "covered": None, "worth": None, "day": None, "tells_of_day": False, "asks": False, "tells_self": False, "words": 9,
    "sector": Sector.SEMANTIC, "confidence": 1.0, "active_hours": 0.0,
}  # fmt: skip


def made_of(several: list[dict[str, Any]]) -> Candidates:
    rows = [
        EMPTY | {"ids": f"{number:04}", "meaning": fields.get("similarity")} | fields
        for number, fields in enumerate(several)
    ]
    columns: list[Any] = [[row[name] for row in rows] for name in Candidates.__struct_fields__]
    return Candidates(*columns)


def ranked(text: str, candidates: Candidates) -> Ranked:
    return rank_by_score(Measure.of(Question(text), candidates), candidates)


def scores(ranking: Ranked) -> dict[str, float]:
    """Return the score of each id, best first."""
    return {ranking.candidates.ids[row]: float(ranking.scores[row]) for row in ranking.order}


@given(st.lists(st.floats(-1e-7, 1e-7), min_size=8, max_size=8))
def test_memories_that_differ_by_the_noise_of_a_cosine_alone_stand_newest_first(noise: list[float]) -> None:
    """Tables and copies compute a cosine in different orders: the same search must not come out otherwise."""
    alike = [{"similarity": 0.822012 + item, "lexical": 1.5} for item in noise]
    candidates = made_of([*alike, {"similarity": 0.4, "lexical": 0.1}, {"similarity": 0.82202, "lexical": 1.5}])
    for found in (ranked("kettle", candidates), rank_by_similarity(candidates)):
        assert found.order == [9, *range(7, -1, -1), 8]
        assert len({found.scores[row] for row in found.order[1:9]}) == 1


candidates_of = st.lists(candidate_fields, max_size=30).map(made_of)
questions = st.sampled_from(QUESTIONS) | st.text(max_size=60)


@given(questions, candidates_of)
def test_every_candidate_is_ranked_once_with_a_number_that_its_parts_make(text: str, candidates: Candidates) -> None:
    found = ranked(text, candidates)
    assert sorted(found.order) == list(range(len(candidates)))
    for row in found.order:
        assert math.isfinite(found.scores[row])
        parts = [part for part in found.explained(row).values() if part is not None]
        assert math.fsum(parts) == pytest.approx(found.scores[row], abs=1e-9 + len(candidates) * EQUAL_SCORES)
    assert list(scores(found).values()) == sorted(scores(found).values(), reverse=True)


@given(questions, candidates_of, st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_come_means_nothing(
    text: str, candidates: Candidates, shuffled: random.Random
) -> None:
    rows = list(range(len(candidates)))
    shuffled.shuffle(rows)
    others = ranked(text, candidates.chosen(rows))
    assert list(scores(others).items()) == list(scores(ranked(text, candidates)).items())


bare = st.fixed_dictionaries({"lexical": st.none() | st.floats(0, 100), "similarity": st.floats(-1, 1)})


@given(st.lists(bare, min_size=2, max_size=20))
def test_without_thread_speaker_and_date_more_of_both_scores_is_never_ranked_lower(
    fields: list[dict[str, float]],
) -> None:
    candidates = made_of(fields)
    score = ranked("When did Ada move in 2023?", candidates).scores
    matches = [((words or 0), vector) for words, vector in zip(candidates.lexical, candidates.similarity, strict=True)]
    for match, (words, vector) in enumerate(matches):
        for other, (other_words, other_vector) in enumerate(matches):
            if words >= other_words and (vector or 0) >= (other_vector or 0):
                assert score[match] >= score[other] - 1e-9


@given(questions, candidates_of)
@pytest.mark.long
def test_what_untrusted_memories_come_along_changes_no_score_of_a_trusted_one(
    text: str, candidates: Candidates
) -> None:
    alone = scores(ranked(text, candidates.trusted_ones()))
    together = scores(ranked(text, candidates))
    assert {item: together[item] for item in alone} == pytest.approx(alone)


@given(candidates_of)
def test_no_memory_of_one_partition_lifts_one_of_the_other(candidates: Candidates) -> None:
    """Taking an untrusted memory's thread, speaker and place away changes no trusted memory's score."""
    blank = made_of(
        [
            {
                name: getattr(candidates, name)[row]
                for name in Candidates.__struct_fields__
                if candidates.trusted[row] or name in {"ids", "trusted", "lexical", "similarity", "meaning"}
            }
            for row in range(len(candidates))
        ]
    )
    before, after = (ranked("When did Ada move?", several).scores for several in (candidates, blank))
    trusted = [row for row in range(len(candidates)) if candidates.trusted[row]]
    assert before[trusted] == pytest.approx(after[trusted])


def test_plain_similarity_leaves_out_what_has_no_vector() -> None:
    found = rank_by_similarity(made_of([{"similarity": cosine} for cosine in (0.2, None, 0.9, 0.2)]))
    assert [(int(item), score) for item, score in scores(found).items()] == [(2, 0.9), (3, 0.2), (0, 0.2)]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("What happened in May 2023?", True), ("what happened in may 2023?", True), ("the summer of 2023", True),
        ("What happened in May?", True), ("May I come in?", False), ("What may come?", False), ("In June 2023", False),
        ("in may 2022", False), ("on 12023-05", False), ("they march in 2022", False), ("MAY", False),
    ],
)  # fmt: skip
def test_months_and_years_are_told_from_verbs(text: str, about: bool) -> None:
    assert Question(text).is_about(date(2023, 5, 7)) is about
    assert Question(text).is_about(None) is False


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("When did Caroline go to the support group?", ("Caroline",)),
        ("What is Anna-Lena's job in Graz?", ("Anna-Lena", "Graz")),
        ("Did Émile call Jo and Jo?", ("Émile", "Jo")),
        ("Would Caroline be glad about it, and Melanie?", ("Caroline", "Melanie")),
        ("Which country was Tim visiting in November?", ("Tim",)),  # no month is a name, nor an abbreviation
        ("Did Tim buy a TV on Friday?", ("Tim",)),
        ("What did I tell Robert?", ()),  # who asks speaks of himself: the name is the topic
        ("How is my cat Tom?", ()),
        ("Caroline went where?", ()),  # the first word has a capital anyway
        ("What Is The Name Of It", ()),  # a title
        ("Wann war Anna mit dem Hund im Garten?", ()),  # other languages write other words with a capital too
        ("", ()), ("?", ()), ("what of it", ()),
    ],
)  # fmt: skip
def test_names_are_told_by_their_capitals_in_english_questions_about_others(text: str, names: tuple[str, ...]) -> None:
    assert Question(text).names == names


def memory(content: str, partition: Partition = Partition.TRUSTED) -> Memory:
    return Memory(id="x", content=content, partition=partition, created_by="me", created_at="", updated_at="")


@given(st.lists(st.tuples(st.sampled_from(["a b", "A  B", " a\tb\n", "c"]), st.sampled_from(list(Partition)))))
def test_an_untrusted_twin_never_stands_for_a_trusted_one(several: list[tuple[str, Partition]]) -> None:
    before: dict[str, set[Partition]] = {}
    shown = [(text, side) for text, side in several if not is_repeated(memory(text, side), before)]
    folded = [(" ".join(text.casefold().split()), side) for text, side in shown]
    assert len(folded) == len(set(folded))
    assert {item for item in folded if item[1] is Partition.TRUSTED} == {
        (" ".join(text.casefold().split()), side) for text, side in several if side is Partition.TRUSTED
    }


def test_an_answer_is_boosted_by_the_question_before_it_not_by_the_one_that_follows() -> None:
    asked = {"thread": "a", "asks": True, "lexical": 9.0}
    told = {"thread": "a", "lexical": 1.0}
    others = [{"lexical": 0.5}, {"lexical": 0.1}]
    ranking = ranked(
        "tea?", made_of([asked | {"position": 4}, told | {"position": 5}, told | {"position": 3}, *others])
    )
    after, before = (float(ranking.parts["answers"][row]) for row in (1, 2))
    assert after > 0
    assert before == 0


@pytest.mark.parametrize(("lexical", "counts"), [(0.1, 0.25), (2.0, 2.0), (4.0, 2.0), (8.0, 4.0)])
def test_a_lone_match_in_words_stands_out_by_what_it_weighs_not_by_how_lone_it_is(
    lexical: float, counts: float
) -> None:
    """By the deviation alone, each of these would count 10 among 400 candidates."""
    ranking = ranked("kettle", made_of([{"lexical": lexical, "words": 0}, *[{"similarity": 0.1}] * 400]))
    assert float(ranking.parts["lexical"][0]) == pytest.approx(counts, rel=0.01)


def test_where_many_match_in_words_their_own_deviation_counts() -> None:
    ranking = ranked("kettle", made_of([{"lexical": 8.0}, {"lexical": 2.0}] * 50))
    assert ranking.parts["lexical"].tolist() == pytest.approx([0.5, -0.5] * 50)
