"""What hooks tell of long memories holds the answer, and a paste beside a prompt's question changes nothing."""

import time
from collections.abc import Callable

import pytest

from engramq.deploy.local.hooks.recall import MOST_TOKENS, MemoryBlock
from engramq.deploy.local.hooks.turns import RECALLED
from tests.deploy.local.hooks.conftest import Owner
from tests.deploy.local.hooks.sessions import Session
from tests.deploy.local.hooks.test_sessions import told
from tests.scenarios.handbook import FILLER, HANDBOOK, MINUTES, handbook_of, minutes
from tests.schemas.pasted import CASES, log_of

pytestmark = pytest.mark.timeout(240)

Begin = Callable[..., Session]


@pytest.mark.promise("KN-9")
@pytest.mark.parametrize("chars", [5_500, 12_000, 28_000])
def test_what_is_told_of_a_long_memory_holds_the_answer(chars: int) -> None:
    for text, asked in ((handbook_of(chars), HANDBOOK), (minutes(), MINUTES)):
        for question, answer in asked:
            block = MemoryBlock(RECALLED, "Kept:", 300, question)
            block.add({"id": "m", "content": text})
            assert answer in block.text(), question


@pytest.mark.promise("KN-9")
def test_the_reply_that_followed_is_told_where_there_is_room() -> None:
    hit = {
        "id": "m",
        "content": "Which one?",
        "followed_by": {"id": "n", "speaker": "Ben", "passage": "The green one."},
    }
    for tokens, told_whole in ((60, True), (24, False)):
        block = MemoryBlock(RECALLED, "", tokens)
        block.add(hit)
        assert ("Which one? -> Ben said: The green one." in block.text()) == told_whole
        assert "Which one?" in block.text()


def test_a_memory_that_says_the_same_as_another_is_told_once() -> None:
    block = MemoryBlock(RECALLED, "", 300)
    for known_as, content in (("m", "Ovens run hot."), ("n", "Ovens run hot."), ("o", "Ovens run hot and dry.")):
        block.add({"id": known_as, "content": content, "created_at": "2026-01-05T20:00:00.000000Z"})
    assert block.text().count("Ovens run hot.") == 1
    assert block.ids == ["m", "n", "o"]  # nor is the other one told with a later prompt


@pytest.mark.promise("KN-6")
def test_the_day_on_which_a_memory_was_stored_is_one_of_the_zone_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        block = MemoryBlock(RECALLED, "", 300)
        block.add({"id": "m", "content": "Tea.", "created_at": "2026-01-05T20:00:00.000000Z"})
        block.add({"id": "n", "content": "Rye.", "occurred_at": "2026-01-05T20:00:00.000000Z"})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "- 2026-01-06: Tea." in block.text()
    assert "- 2026-01-05: Rye." in block.text()


@pytest.mark.promise("KN-8", "KN-9")
def test_a_prompt_with_a_paste_is_told_what_answers_its_question(owner: Owner, session: Begin) -> None:
    paste, question, answer = CASES[0]
    owner.stores(answer)
    for prompt in (f"{question}\n\n{paste}", f"{paste}\n\n{question}", f"{log_of(60_000)}\n{question}"):
        assert answer in told(session(), "UserPromptSubmit", prompt=prompt)


@pytest.mark.promise("KN-9", "CL-2")
def test_what_is_told_stays_below_what_clients_show_whatever_is_set(owner: Owner, session: Begin) -> None:
    for number in range(14):
        owner.stores(f"The zebra {number} of the engine room: {' '.join(FILLER * 3)}")
    begun = session()
    begun.environment["ENGRAMQ_HOOK_TOKENS"] = "20000"
    context = told(begun, "SessionStart", source="startup")
    assert MOST_TOKENS < len(context) < 9_500
