"""The page in another language says its own words, and leaves what is stored as it is, byte for byte."""

from typing import Any, Final

import pytest

from engramq.gateway.ui.effects import say_effect
from engramq.gateway.ui.html import say_word
from engramq.gateway.ui.languages import read_messages
from engramq.gateway.ui.reasons import say_details, say_reason
from engramq.schemas.records import EdgeChange
from engramq.workers.graph import proposals

pytestmark = pytest.mark.promise("OP-12")

GERMAN: Final = read_messages()["de"]
# Each is a sentence, or a part of one, that the page says in German where it is its own.
TEXTS: Final = (
    "semantic",
    "Ada works in project apollo",
    "3 memories",
    "a; and 3 more",
    "Redis does not let this user run FLUSHALL.",
    "Nothing was changed. Try it.",
    "the cat: weight is 1 already; and 3 more",
    'a" (x) --uses--> b (y): weight from 1 to 2.',
    "x) and its 2 edges, constitutive among them: y (z",
)


def an_edge(name: str = "Ada") -> dict[str, Any]:
    return {
        "source": {"name": name, "label": "Person"},
        "target": {"name": name, "label": name},
        "relation": name,
        "memory_sector": "semantic",
        "properties": {"is_constitutive": True},
        "valid_until": None,
    }


def words(name: str) -> str:
    return f"{name} (Person) --{name}--> {name} ({name})"


def a_proposal(effect: str, **more: Any) -> dict[str, Any]:
    return {"effect": effect, "action": "change", "state": "pending", "new_sector": None, **more}


@pytest.mark.parametrize("text", TEXTS)
def test_the_memory_that_people_consent_to_share_is_not_rewritten(text: str) -> None:
    proposal = a_proposal(f"Let everybody see this memory: {text}", memory_id="1")
    assert say_effect(proposal, GERMAN) == f"Alle sollen diese Erinnerung sehen: {text}"


@pytest.mark.parametrize("text", TEXTS)
def test_the_names_of_an_edge_are_not_rewritten(text: str) -> None:
    edge = an_edge(text)
    gone = a_proposal(f"Delete the edge {words(text)}.", edge=edge, action="delete")
    assert say_effect(gone, GERMAN) == f"Die Kante {words(text)} löschen."
    moved = a_proposal(
        f"Give the edge {words(text)} the sector procedural; now it is semantic.", edge=edge, new_sector="procedural"
    )
    assert say_effect(moved, GERMAN) == f"Der Kante {words(text)} die Art Anleitung geben; jetzt ist es Wissen."


@pytest.mark.parametrize("text", TEXTS)
def test_the_values_of_a_change_are_not_rewritten(text: str) -> None:
    change = {
        "old": {"weight": 1, "properties": {"is_constitutive": True, text: text}},
        "new": {"weight": 0.5, "properties": {"is_constitutive": False, text: text, "note": f"{text}!" * 9}},
    }
    differences = proposals._differences(EdgeChange(**change))
    english = f"Change the edge {words(text)}: {differences}. After that it is no longer constitutive."
    said = say_effect(a_proposal(english, edge=an_edge(text), change=change), GERMAN)
    key, note = proposals._json(text), proposals._json(f"{text}!" * 9)
    parts = {
        "Gewicht von 1 auf 0.5",
        'Eigenschaft "is_constitutive" von true auf false',
        f"Eigenschaft {key} ist schon {key}",
        f'Eigenschaft "note" kommt hinzu: {note}',
    }
    begin, end = f"Die Kante {words(text)} ändern: ", ". Danach ist sie nicht mehr konstitutiv."
    assert (said.startswith(begin), said.endswith(end)) == (True, True), said
    assert {part for part in parts if part not in said} == set(), said
    assert len(said) == len(begin) + len(end) + len("; ".join(parts))


def test_more_values_than_are_named_are_counted() -> None:
    change = {"old": {}, "new": {"properties": {f"key{at:02}": at for at in range(12)}}}
    english = f"Change the edge {words('Ada')}: {proposals._differences(EdgeChange(**change))}."
    said = say_effect(a_proposal(english, edge=an_edge(), change=change), GERMAN)
    assert said.endswith('Eigenschaft "key09" kommt hinzu: 9; und 2 weitere.')


@pytest.mark.parametrize("text", TEXTS)
def test_the_names_of_a_node_and_its_edges_are_not_rewritten(text: str) -> None:
    node = {"name": text, "label": text, "edge_count": 12}
    for more, weitere in (("", ""), ("; and 2 more", "; und 2 weitere")):
        english = f"Delete the node {text} ({text}) and its 12 edges, constitutive among them: {words(text)}{more}."
        german = (
            f"Den Knoten {text} ({text}) und seine 12 Kanten löschen, darunter konstitutiv: {words(text)}{weitere}."
        )
        assert say_effect(a_proposal(english, node=node, action="delete"), GERMAN) == german


def test_an_effect_that_its_values_do_not_make_stays_as_it_is() -> None:
    for effect in (f"Delete the edge {words('Bob')}.", "Delete the node Bob (x) and its 1 edge.", "Something new."):
        assert say_effect(a_proposal(effect, edge=an_edge(), action="delete"), GERMAN) == effect
    assert say_effect(a_proposal("Nothing: the edge is gone."), GERMAN) == "Nichts: Die Kante ist weg."
    closed = a_proposal("Nothing any more: it is used.", memory_id="1", state="used")
    assert say_effect(closed, GERMAN) == "Nichts mehr: Der Vorschlag ist verwendet."


@pytest.mark.parametrize("quoted", ["semantic", "an object", "Ada works in project apollo", "{0} is missing"])
def test_what_a_refusal_quotes_is_not_rewritten(quoted: str) -> None:
    for english in (
        f"Node not found: {quoted}",
        f"There is no project {quoted}.",
        f"confidence must be a number from 0 to 1, not {quoted!r}.",
        f"The link {quoted!r} between {quoted} and 2 has another relation than {quoted!r}.",
    ):
        said = say_reason(english, GERMAN)
        assert (said != english, said.count(quoted)) == (True, english.count(quoted)), said


@pytest.mark.parametrize(
    ("english", "german", "memory"),
    [
        ("thread Inbox, weight of things", "Sitzung Inbox, weight of things", {"thread": "Inbox, weight of things"}),
        (
            "thread Inbox, weight 3, position 2",
            "Sitzung Inbox, weight 3, Stelle 2",
            {"thread": "Inbox, weight 3", "position": 2},
        ),
        ("thread Inbox, weight 3 and…", "Sitzung Inbox, weight 3 and…", {"thread": "Inbox, weight 3 and more"}),
        (
            "thread a, speaker b, speaker c",
            "Sitzung a, speaker b, gesagt von c",
            {"thread": "a, speaker b", "speaker": "c"},
        ),
        ("origin agent, weight 0.5, relation a, weight 3", "Herkunft Agent, Gewicht 0.5, Beziehung a, weight 3", {}),
        ("action promote, new manual", "Handlung übernommen, new manual", {}),
        ("weight of things", "weight of things", {}),
    ],
)
def test_the_details_of_why_a_memory_is_known_keep_what_is_stored(
    english: str, german: str, memory: dict[str, object]
) -> None:
    assert say_details(english, GERMAN, memory) == german
    assert say_details(english, {}, memory) == english


def test_a_word_of_a_field_is_no_word_of_others() -> None:
    assert say_word("manual", "sector_source", messages=GERMAN) == "jemand"
    assert [say_word(word, messages=GERMAN) for word in ("manual", "auto")] == ["manual", "auto"]
