"""Values and dates that are written otherwise weigh the same in a copy and in the tables."""

import pytest

from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.db.vectors import Sizes
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.copies import Copies
from engramq.workers.search.question import Question
from engramq.workers.search.spans import MONTHS
from tests.workers.search.recall.conftest import Scene
from tests.workers.search.recall.test_copies import TRUSTED, copied


@pytest.mark.promise("KN-7")
async def test_no_spelling_of_a_date_takes_the_place_of_a_word(scene: Scene) -> None:
    dates = ", ".join(f"{month} {day}, 20{day}" for day, month in enumerate(MONTHS[:5], 12))
    question, filters = Question(f"zucchini telescope {dates}"), Filters(partitions=TRUSTED)
    await scene.keep(question.spellings)
    wanted = [await scene.keep(f"The zucchini beside telescope {number}") for number in "abc"]
    copies = Copies(scene.world.store, Sizes())
    await copied(copies, TRUSTED)
    proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, question)
    assert proven is not None
    tables = await scene.world.store.read(
        DEFAULT_NAMESPACE, lambda tx: find_candidates(tx, Sizes(), question, None, filters)
    )
    for found_by in (tables, await proven.candidates(question, None, filters)):
        lexical = dict(zip(found_by.ids, found_by.lexical.tolist(), strict=True))
        assert [lexical.get(memory, 0.0) > 0.5 for memory in wanted] == [True] * 3


@pytest.mark.promise("KN-7")
@pytest.mark.parametrize(
    ("kept", "others", "asked"),
    [
        ("The choir has three hundred members", "The choir has two hundred members", "choir 300"),
        ("The loop is 1.5 km long", "The loop is 2.5 km long", "loop 1500 m"),
        ("The shift ends at 9pm", "The shift ends at 8pm", "shift 21:00"),
        ("The total of the loan is 12345", "The total of the loan is 12346", "loan 12,345"),
    ],
)
async def test_a_value_that_is_written_otherwise_weighs_as_the_words_it_stands_for(
    scene: Scene, kept: str, others: str, asked: str
) -> None:
    for filler in ("A kettle whistles", "The rain fell", "Bob sold his car"):
        await scene.keep(filler)
    wanted, other = await scene.keep(kept), await scene.keep(others)
    copies, question = Copies(scene.world.store, Sizes()), Question(asked)
    await copied(copies, TRUSTED)
    proven = await copies.find_current(DEFAULT_NAMESPACE, TRUSTED, question)
    assert proven is not None
    tables = await scene.world.store.read(
        DEFAULT_NAMESPACE, lambda tx: find_candidates(tx, Sizes(), question, None, Filters(partitions=TRUSTED))
    )
    for found_by in (tables, await proven.candidates(question, None, Filters(partitions=TRUSTED))):
        covered = dict(zip(found_by.ids, found_by.covered.tolist(), strict=True))
        assert covered[wanted] == 1.0
        assert covered[other] < 1.0
