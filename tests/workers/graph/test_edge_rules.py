import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engramq.schemas.vocabulary import Sector
from engramq.workers.graph.edge_rules import CONTEXT_SECTORS, RELATION_SECTORS, edge_sector


def test_a_relation_alone_decides_without_regard_to_case() -> None:
    for relation, sector in [
        ("KNOWS", Sector.SEMANTIC),
        ("DISCUSSED", Sector.SEMANTIC),
        ("PREFERS", Sector.SEMANTIC),
        ("FROBNICATES", Sector.SEMANTIC),
        ("", Sector.SEMANTIC),
        ("LEARNED", Sector.PROCEDURAL),
        ("CAN_DO", Sector.PROCEDURAL),
        ("USES", Sector.PROCEDURAL),
        ("REFLECTS", Sector.REFLECTIVE),
        ("REALIZED", Sector.REFLECTIVE),
        ("LEARNED_FROM", Sector.REFLECTIVE),
        ("ATTENDED", Sector.EPISODIC),
        ("FEARS", Sector.EMOTIONAL),
    ]:
        for written in [str.upper, str.lower, str.title]:
            assert edge_sector(written(relation), {}) is sector


@pytest.mark.parametrize("relation", [" can_do ", "can do", "Can-Do", "CAN  DO"])
def test_blanks_and_hyphens_count_as_underscores(relation: str) -> None:
    assert edge_sector(relation, {}) is Sector.PROCEDURAL


def test_an_emotional_valence_beats_every_relation() -> None:
    for valence in [0.8, -1, 0, "warm", "", False]:
        for relation in ["KNOWS", "USES", "REFLECTS"]:
            assert edge_sector(relation, {"emotional_valence": valence}) is Sector.EMOTIONAL


def test_a_null_property_says_nothing() -> None:
    assert edge_sector("USES", {"emotional_valence": None, "context_type": None}) is Sector.PROCEDURAL


def test_a_shared_experience_beats_every_relation() -> None:
    for relation in ["KNOWS", "LEARNED", "REALIZED", "LOVES"]:
        for context in ["shared_experience", "Shared_Experience", "SHARED EXPERIENCE", " shared-experience "]:
            assert edge_sector(relation, {"Context_Type": context}) is Sector.EPISODIC


def test_an_emotional_property_comes_before_the_context() -> None:
    properties = {"context_type": "shared_experience", "EMOTIONAL_VALENCE": 0.3}
    assert edge_sector("KNOWS", properties) is Sector.EMOTIONAL


@pytest.mark.parametrize("context", ["work", "", 7, True, ["shared_experience"], {"a": 1}])
def test_an_unknown_context_leaves_it_to_the_relation(context: object) -> None:
    assert edge_sector("CAN_DO", {"context_type": context, "since": 2019}) is Sector.PROCEDURAL


@pytest.mark.parametrize("table", [CONTEXT_SECTORS, RELATION_SECTORS])
def test_no_name_stands_under_two_sectors(table: dict[Sector, frozenset[str]]) -> None:
    names = list(itertools.chain.from_iterable(table.values()))
    assert len(names) == len(set(names))


def test_every_listed_relation_is_found_however_it_is_written() -> None:
    listed = [(name, sector) for sector, names in RELATION_SECTORS.items() for name in names]
    assert [(name, edge_sector(name.upper().replace("_", " "), {})) for name, _ in listed] == listed


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.text(max_size=40), st.dictionaries(st.sampled_from(["context_type", "emotion", "x"]) | st.text(), JSON))
def test_any_relation_with_any_properties_has_a_sector(relation: str, properties: dict[str, object]) -> None:
    assert edge_sector(relation, properties) in Sector
