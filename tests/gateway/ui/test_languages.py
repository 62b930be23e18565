"""The page in other languages: every text has its own, and the reader's choice counts before the browser's."""

import ast
import json
import re
import time
from collections.abc import Iterator
from typing import Final, get_args, get_type_hints

import pytest
from jinja2 import Environment

from engramq.deploy.exporting import Omission
from engramq.gateway.ui.bulk_actions import RESULTS
from engramq.gateway.ui.effects import EFFECTS
from engramq.gateway.ui.html import ACTIONS, AGO, DONE, HERE, PAGES, PART_MEANINGS, SCRIPT_WORDS
from engramq.gateway.ui.languages import TemplateTexts, choose_language, is_for_people, read_messages
from engramq.gateway.ui.memories import BOTH, FACET_TITLES
from engramq.gateway.ui.reasons import DETAIL_WORDS, REASONS, say_reason
from engramq.gateway.ui.request import for_people
from engramq.gateway.ui.start import STATUS_TEXTS
from engramq.schemas import redis_problems
from engramq.schemas.checks import Check
from engramq.schemas.commands import Card
from engramq.schemas.faults import NOT_APPLIED, FaultCode
from engramq.schemas.vocabulary import (
    Absence,
    AuditAction,
    CitationState,
    EvidenceFilter,
    Layer,
    MemoryState,
    Origin,
    Partition,
    ProposalState,
    ReceiptStatus,
    Sector,
    SectorSource,
    Verification,
    Visibility,
)
from engramq.workers.db import errors
from engramq.workers.memories.quotas import UNITS
from engramq.workers.search.relevance import KINDS
from tests.architecture.source import ROOT
from tests.gateway.ui.browsing import Browser
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

# Words that templates show by `| t` and no other place names.
COUNTED = ("memory", "memories", "search", "searches", "day", "month", "year", BOTH)
VERBS = ("back", "shared", "tagged")
FIELDS = ("any", "confidence", "expires", "external id", "holds from", "holds until", "position", "source")
ABSENT = (*Absence, ReceiptStatus.SKIPPED, ReceiptStatus.UPDATED)  # of rows whose memory is not to be found
UNDONE = ("Set back", "Undo: restore", "Hide it again: archive")
SHOWN = (
    *(CitationState, EvidenceFilter, Layer, MemoryState, Origin, Partition, ProposalState, Sector),
    *(Verification, Visibility),
)
CARD_KINDS = {name.replace("_", " ") for name, kind in get_type_hints(Card).items() if "CardLine" in str(kind)}
DETAILS = (
    *("action", "external_id", "helped", "misled", "origin", "position", "project", "relation", "signal"),
    *("source_type", "speaker", "thread", "usefulness", "weight"),
)
CHANGED_IN_GRAPH = ("edge", "node", "weight", "verify", "promote", "share", "unshare")
MISSING = ("page", "memory", "proposal", "token")
# Modules that read past sessions, which nobody uploads on the page.
OF_SESSIONS: Final = frozenset({"sessions", "transcript_databases", "transcript_files"})
SAME = frozenset({"engramq", "· engramq", "id", "GET"})


def calls_of(*names: str, folder: str = "deploy/importing") -> Iterator[ast.Call]:
    """Yield each call of these functions in the modules that read uploaded files, or in others."""
    for file in (ROOT / folder).glob("*.py"):
        if file.stem not in OF_SESSIONS:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
                    yield node


def sentence_in(node: ast.Call) -> str | None:
    """Return the reason that a call is given, {} for each value in it; None where it is made elsewhere."""
    kind = ast.unparse(node.func).rpartition(".")[2]
    place = {"Rejection": 2, "UnusableFile": 0, "ChangedMeanwhile": 0}.get(kind, 1)
    return text_of(node.args[place])


def text_of(given: ast.expr) -> str | None:
    """Return a text with {} for each value in it; None where it is made elsewhere."""
    if isinstance(given, ast.JoinedStr):
        parts = ("{}" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part) for part in given.values)
        return "".join(map(str, parts))
    return str(given.value) if isinstance(given, ast.Constant) else None


def left_out_by_imports() -> set[str]:
    return {ast.literal_eval(given) for node in calls_of("LeftOut") for given in node.args}


def texts() -> set[str]:
    """Return every text of the page."""
    found = {
        *DONE.values(),
        *RESULTS.values(),
        *ACTIONS.values(),
        *PART_MEANINGS.values(),
        *STATUS_TEXTS.values(),
        *SCRIPT_WORDS,
        *REASONS,
        *EFFECTS,
        *DETAILS,
        *DETAIL_WORDS,
        AGO,
        *map(str, Omission),
        *left_out_by_imports(),
    }
    found |= (
        {name for _, name, _, _ in PAGES} | set(FACET_TITLES.values()) | {*COUNTED, *FIELDS, *VERBS, *UNDONE, *KINDS}
    )
    found |= {f"There is no such {kind}" for kind in MISSING} | {f"Back to {word}" for word in Verification}
    found |= {f"new {word}" for word in (*Verification, *Partition, *Visibility)}
    found |= {*map(str, ABSENT)} | {f"sector_source {word}" for word in SectorSource}
    found |= set(get_args(get_type_hints(Check)["state"]))
    found |= {str(word).replace("_", " ") for words in SHOWN for word in words} | {*CARD_KINDS, *CHANGED_IN_GRAPH}
    environment = Environment(trim_blocks=True, lstrip_blocks=True, autoescape=True)
    for file in (HERE / "templates").glob("*.html"):
        pieces = TemplateTexts({})
        for token in environment._tokenize(file.read_text(), file.name):
            if token.type == "data":
                pieces.translate(token.value)
            elif token.type == "string" and is_for_people(token.value):
                pieces.say(token.value)
        found |= pieces.seen
    return found - SAME


def test_each_action_of_the_audit_log_has_words() -> None:
    assert {str(action) for action in AuditAction} == ACTIONS.keys()


@pytest.mark.parametrize("language", [language for language in read_messages() if language != "en"])
def test_a_language_has_each_text_and_no_other(language: str) -> None:
    table = read_messages()[language]
    assert sorted(texts() - table.keys()) == []
    assert sorted(table.keys() - texts()) == []


def test_each_reason_of_a_reader_of_uploads_is_declared() -> None:
    said = {sentence for node in calls_of("Rejection", "invalid") if (sentence := sentence_in(node))}
    made_of_others = {
        "{}: is a quotation mark never closed?",
        "namespace must be a text of 1 to {} characters that is not blank.",
    }
    assert len(said) > 20
    assert said - made_of_others - set(REASONS) == set()


def test_each_refusal_of_a_whole_file_is_declared() -> None:
    said = {sentence for node in calls_of("UnusableFile", "ChangedMeanwhile") if (sentence := sentence_in(node))}
    assert len(said) > 25
    assert said - set(REASONS) == set()


def test_each_refusal_and_recovery_of_the_page_is_declared() -> None:
    said = set[str]()
    for node in calls_of("invalid", "refuse", folder="gateway/ui"):
        given = [*node.args[1:3], *(word.value for word in node.keywords if word.arg == "recovery")]
        said |= {text for each in given if (text := text_of(each)) and "-{}" not in text}
    assert len(said) > 25
    assert said - set(REASONS) == set()


def test_each_refusal_of_a_server_and_what_to_do_then_is_declared() -> None:
    for name in (*errors._NAMES.values(), *redis_problems._REFUSAL_WORDS.values()):
        assert (name if name.endswith(".") else f"{name} ({{}}).") in REASONS
    for code in NOT_APPLIED | {FaultCode.INTERNAL}:
        recovery = for_people({"recovery": code.recovery})["recovery"]
        assert say_reason(recovery, read_messages()["de"]) != recovery, recovery


def test_each_reason_that_is_declared_for_files_is_said() -> None:
    files = [*(ROOT / "deploy" / "importing").glob("*.py"), ROOT / "schemas" / "packed_lines.py"]
    trees = [ast.parse(file.read_text()) for file in files]
    texts = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    said = "\0".join(text for text in texts if isinstance(text, str))
    sections = (HERE / "reasons.txt").read_text("utf-8").split("\n# ")
    lines = [line for at in (0, 4) for line in sections[at].splitlines()[1:]]
    parts = {part for line in lines for part in re.split(r"\{~?\}|(?= --)|(?<=bytes)", line)}
    assert {part for part in parts if part not in said} == set()


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("content is missing.", "content fehlt."),
        (
            "confidence must be a number from 0 to 1, not 'high'.",
            "confidence: erwartet ist eine Zahl von 0 bis 1, nicht 'high'.",
        ),
        (
            "content must be a text of 1 to 9 characters that is not blank, not one of 12 characters.",
            "content: erwartet ist ein nicht leerer Text von 1 bis 9 Zeichen, nicht einer von 12 Zeichen.",
        ),
        ("A sentence that nobody has declared.", "A sentence that nobody has declared."),
        ("{0} is no text.", "{0} ist kein Text."),
        ('a 5" disk. The file is empty.', 'a 5" disk. Die Datei ist leer.'),
        (r'"C:\tmp. D\\" is missing. The file is empty.', r'"C:\tmp. D\\" fehlt. Die Datei ist leer.'),
        (r'"a \". b" is missing. The file is empty.', r'"a \". b" fehlt. Die Datei ist leer.'),
        (
            "The namespace may have no more than 5 memories (memories in ENGRAMQ_QUOTAS).",
            "Der Namensraum darf höchstens 5 Erinnerungen haben (memories in ENGRAMQ_QUOTAS).",
        ),
    ],
)
def test_a_reason_is_said_with_its_values_in_the_language(english: str, german: str) -> None:
    tables = read_messages()
    assert say_reason(english, tables["de"]) == german
    assert say_reason(english, tables["en"]) == english


@pytest.mark.parametrize(
    "name",
    ["a, 3 memories in project b", "a, 3 memories in no project", "Do it. 3 memories in project b", 'a" in project'],
)
@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("2 memories in project {}.", "2 Erinnerungen im Projekt {}."),
        ("2 hits in project {}, 1 hit in no project.", "2 Treffer im Projekt {}, 1 Treffer in keinem Projekt."),
        ("There is no project {}; nearest: shop.", "Es gibt kein Projekt {}; am nächsten: shop."),
        ("There is no project {}. 1 memory in project b.", "Es gibt kein Projekt {}. 1 Erinnerung im Projekt b."),
    ],
)
def test_a_project_keeps_its_name_whatever_that_says(english: str, german: str, name: str) -> None:
    quoted = json.dumps(name)
    assert say_reason(english.format(quoted), read_messages()["de"]) == german.format(quoted)


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_of_a_quota_is_said_in_the_language(unit: str) -> None:
    said = say_reason(
        f"The principal may have no more than 5 {UNITS[unit]} (principal_{unit} in ENGRAMQ_QUOTAS).",
        read_messages()["de"],
    )
    assert f" {UNITS[unit]} " not in said
    assert said.endswith(f" haben (principal_{unit} in ENGRAMQ_QUOTAS).")


@pytest.mark.parametrize(
    "text",
    [
        "a may have " * 30 + " " * 200 + " and has " * 30 + "(" * 60,
        "x may have 5" + " 5 and has 5 (" * 70,
        "a list of 1 to 2, each " * 43,
        "x is missing." + " is missing." * 82,
    ],
)
def test_a_reason_of_many_parts_takes_no_longer_than_its_text(text: str) -> None:
    messages = read_messages()["de"]
    say_reason("x", messages)  # which compiles the patterns
    begun = time.process_time()
    assert say_reason(text[:1000], messages)
    assert time.process_time() - begun < 0.3


@pytest.mark.parametrize(
    ("wanted", "accepted", "language"),
    [
        ("", "", "en"), ("", "de-AT,de;q=0.9,en;q=0.8", "de"), ("", "fr,en;q=0.5", "en"), ("", "fr;q=0.9, DE", "de"),
        ("en", "de", "en"), ("../x", "de", "de"),
    ],
)  # fmt: skip
def test_the_choice_counts_then_the_browser_then_english(wanted: str, accepted: str, language: str) -> None:
    assert choose_language(wanted, accepted, read_messages()) == language


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        ("<p>Done</p>", "<p>Getan</p>"),
        (' <a title="Done" class="Done">x</a>', ' <a title="Getan" class="Done">x</a>'),
        ("<code>Done</code><b>Done</b>", "<code>Done</code><b>Getan</b>"),
        ("<p>\n  Done\n</p>", "<p>\n  Getan\n</p>"),
        ("<p>Other</p>", "<p>Other</p>"),
    ],
)
def test_texts_are_said_and_markup_stays(piece: str, said: str) -> None:
    assert TemplateTexts({"Done": "Getan"}).translate(piece) == said


def test_a_piece_may_begin_and_end_within_a_tag() -> None:
    pieces = TemplateTexts({"Done": "Getan"})
    assert [pieces.translate(piece) for piece in ('<a href="', '" title="Done', '">Done</a>')] == [
        '<a href="',
        '" title="Getan',
        '">Getan</a>',
    ]


async def test_a_german_page_stays_german_and_goes_back(agent: Agent, browser: Browser) -> None:
    await agent.store("Ada drinks tea")
    browser.client.headers["accept-language"] = "de-DE,de;q=0.9"
    page = await browser.get("/ui/memories")
    assert ("html", {"lang": "de"}) in page.reader.elements
    for word in ("Erinnerungen", "Neue Erinnerung", "Ada drinks tea", "gespeichert"):
        assert word in page.text, word
    english = await browser.send(page, "/ui/language", language="en")
    assert (english.path, "New memory" in english.text) == ("/ui/memories", True)
    kept = english.response.history[0].headers["set-cookie"].lower()
    assert "samesite=lax" in kept, "a link from another site shows the page in this language too"
    refused = await browser.send(english, "/ui/language", language="xx")
    assert (refused.status, "no such language" in refused.text) == (400, True)


async def test_a_german_reader_meets_no_english_label(agent: Agent, browser: Browser) -> None:
    """From findings of newcomers: facts, undo, actions, states and missing pages were English."""
    await agent.store("A forum says so", source_type="research")
    stored = await agent.store("Ada drinks tea")
    await agent.call("forget_memory", memory_id=stored["id"])
    browser.client.headers["accept-language"] = "de"
    shown = {
        address: (await browser.get(address)).text
        for address in ("/ui/inbox", "/ui/audit", "/ui/consent", "/ui/imports", "/ui/nothing", "/ui/memories/new")
    }
    for address, german, english in (
        ("/ui/inbox", "Sicherheit 1.0", "confidence"),
        ("/ui/inbox", "Bestätigen", "Prüfen"),
        ("/ui/audit", "Wiederherstellen", "Restore"),
        ("/ui/audit", "änderte einen Knoten", "update_node"),
        ("/ui/consent", "verwendet", "used"),
        ("/ui/memories/new", "ungeprüft", "untrusted"),
        ("/ui/memories/new", "Anleitung", "procedural"),
        ("/ui/nothing", "Es gibt keine solche Seite", "page"),
    ):
        assert (address, german in shown[address], english in shown[address]) == (address, True, False)
