"""The question of a prompt is found beside what is pasted, before it or behind it (KN-8)."""

import json

import pytest

from bench import dense
from engramq.schemas.pastes import NAMES, UNTOUCHED, asks, keep_both_ends, read_prompt
from tests.schemas.pasted import CASES, DIFF, MAIL, PYTHON_TRACE, log_of

pytestmark = pytest.mark.promise("KN-8")

FORMS = (
    "{question}\n\n{paste}",
    "{question}\n{paste}",
    "{paste}\n\n{question}",
    "{paste}\n{question}",
    "{paste} {question}",
    "```\n{paste}\n```\n{question}",
    "{question}\n```\n{paste}\n```\nThanks!",
    "Hi!\n\n{question} I need it today.\n\n{paste}\n",
    "{paste}\n\nI saw this today. {question}\nThanks in advance\n",
)


def test_a_question_is_read_without_what_is_pasted() -> None:
    for paste, question in [case[:2] for case in CASES]:
        for form in FORMS:
            asked = read_prompt(form.format(paste=paste, question=question)).asked
            assert question in asked
            assert len(asked) <= len(question) + 60


@pytest.mark.parametrize("chars", [5_000, 20_000, 60_000])
@pytest.mark.parametrize("fence", ["", "```\n", "~~~log\n", "```\nnote\n```\n```text\n"])
def test_a_question_behind_a_long_log_is_kept_by_both_ends(chars: int, fence: str) -> None:
    question = CASES[0][1]
    cut = keep_both_ends(f"{fence}{log_of(chars)}\n{fence[:3]}\n{question}", 30_000)
    assert len(cut) <= 30_000
    assert read_prompt(cut).asked == question


def test_questions_stay_as_they_are_however_they_ramble() -> None:
    asked = [line["query"] for line in map(json.loads, dense.SET.read_text().splitlines()) if "query" in line]
    rambling = " ".join(f"I went to the market on day {n}, as I always do, and nobody was there." for n in range(20))
    for question in (
        *asked,
        f"{rambling} Who was it that I met?",
        rambling,
        "x" * UNTOUCHED,
        "\U0001f980",
        "a\n" * 100,
    ):
        assert read_prompt(question) == (question, ())
    assert read_prompt(log_of(4_000).strip()).asked == log_of(4_000).strip(), "what asks nothing is asked as it is"


def test_a_command_is_what_is_asked_too() -> None:
    for command in (
        "Fix this as we did last time.",
        "Please do it like Ada.",
        "Zeig mir, was wir dazu beschlossen haben.",
    ):
        assert read_prompt(f"{PYTHON_TRACE}\n\n{command}").asked == command


def test_what_a_mail_asks_is_not_what_the_prompt_asks() -> None:
    mail = MAIL.replace("The contract itself", "Can you confirm? The contract itself")
    assert read_prompt(f"{mail}\n\nWhat did we offer them?").asked == "What did we offer them?"
    assert read_prompt(f"What did we offer them?\n\n{mail}").asked == "What did we offer them?"


def test_a_paste_adds_few_names_where_the_question_names_little() -> None:
    assert read_prompt(f"{PYTHON_TRACE}\n\nWhy?").names[:2] == ("ORD-3391", "ChargeRefusedError")
    assert "Hassan Rahimi" in read_prompt(f"{MAIL}\n\nWhat did we offer?").names
    assert read_prompt(f"{MAIL}\n\nWhat did we offer for the phase of the harbour?").names == ()
    assert all(len(read_prompt(f"{paste}\n\nWhy is it so?").names) <= NAMES for paste in (PYTHON_TRACE, DIFF, MAIL))
    assert "layer8.call" not in read_prompt(f"{PYTHON_TRACE}\n\nWhy?").names


ASKED = (
    "Could you paint the fence.",
    "Tell me which boat it was.",
    "I need you to paint the fence.",
    "Paint the fence, please.",
    "Kannst du den Zaun streichen",
    "Ok, so can you paint it",
    "We met. Where is the key?",
)
STATED = (
    "Will is here.",
    "Can opener bought.",
    "Plan B was chosen.",
    "Check valve replaced on 3 May.",
    "May Lee runs the harbour.",
    "Is known as the green boat.",
    "Find of the day: an old anchor.",
    "List of boats: three.",
    "She was pleased.",
)


def test_questions_and_requests_are_told() -> None:
    for text, is_asked in [
        ("Which one?", True),
        ("Please paint the fence.", True),
        ("I have a list of boats. Can you sort it?\n\n```\nboat = 1\n```", True),
        ("Write me a poem", True),
        ("The fence is painted.", False),
        *((text, True) for text in ASKED),
        *((text, False) for text in STATED),
        ("x = y ? 1 : 2", False),
        ("", False),
        *(
            (f"Look:\n{fence}\n{log_of(7_600)}\n{fence}\nWhy does it fail?", True)
            for fence in ("```", "````", "~~~", "~~~~")
        ),
    ]:
        assert asks(text) == is_asked
