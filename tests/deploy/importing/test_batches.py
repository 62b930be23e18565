"""A file becomes batches; each row has an identity that neither batch, nor order, nor wording changes."""

from collections.abc import Iterable
from typing import Any

import pytest

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.deploy.importing.rows import CheckedRow, RowBatch, Secrets, check_rows, make_batches

NAMESPACE = "tenant"
WHEN = "2026-01-31T09:00:00"


def rows(said: Iterable[dict[str, Any]], **options: Any) -> list[CheckedRow | Rejection | LeftOut]:
    given = [UncheckedRow(number, dict(values)) for number, values in enumerate(said, start=1)]
    return list(check_rows(given, NAMESPACE, **{"one_namespace": False, **options}))


def identities(said: Iterable[dict[str, Any]], **options: Any) -> list[bytes]:
    made = rows(said, **options)
    assert all(isinstance(item, CheckedRow) for item in made), made
    return [item.identity for item in made if isinstance(item, CheckedRow)]


def batches(said: Iterable[dict[str, Any]], size: int = 2) -> list[RowBatch]:
    made = list(make_batches(rows(said), size, chars=1_000))
    assert all(isinstance(item, RowBatch) for item in made)
    return [item for item in made if isinstance(item, RowBatch)]


@pytest.mark.promise("IM-8")
def test_equal_rows_are_told_apart_by_their_number_and_removing_one_changes_no_other() -> None:
    said = [{"content": text} for text in "abaca"]
    known = identities(said)
    assert len(set(known)) == 5
    assert identities([*said[1:], {"content": "new"}])[:4] == [known[1], known[0], known[3], known[2]]


@pytest.mark.promise("IM-8")
@pytest.mark.parametrize(
    "other",
    [
        {"metadata": {"b": [1, {"d": 1, "c": 2}], "a": 1}, "content": "x", "occurred_at": WHEN + "Z"},
        {"confidence": 1.0, "source": "extracted", "verification": "unverified", "tags": []},
        {"confidence": "1", "speaker": None, "thread": "", "namespace": NAMESPACE},
        {"occurred_at": "2026-01-31T10:00:00+01:00"},
    ],
)
def test_the_same_said_otherwise_is_the_same_row(other: dict[str, Any]) -> None:
    said = {"content": "x", "occurred_at": WHEN, "metadata": {"a": 1, "b": [1, {"c": 2, "d": 1}]}}
    assert identities([said]) == identities([{**said, **other}])


@pytest.mark.promise("IM-8")
@pytest.mark.parametrize(
    "other",
    [
        {"content": "y"},
        {"confidence": 0.5},
        {"metadata": {"a": 1}},
        {"tags": ["a"]},
        {"namespace": "other"},
        {"external_id": "x"},
        {"partition": "trusted"},
    ],
)
def test_a_row_that_says_something_else_is_another(other: dict[str, Any]) -> None:
    assert identities([{"content": "x"}]) != identities([{"content": "x", **other}])


@pytest.mark.promise("IM-8")
def test_an_external_id_names_a_row_whatever_it_says() -> None:
    first, second, elsewhere = identities(
        [
            {"content": "a", "external_id": "1"},
            {"content": "b", "external_id": "1"},
            {"content": "a", "external_id": "1", "namespace": "other"},
        ]
    )
    assert first == second != elsewhere


def test_one_namespace_for_all_rows_is_theirs_in_their_identities_too() -> None:
    said = [{"content": "x", "namespace": "other"}]
    assert identities(said, one_namespace=True) == identities([{"content": "x"}])


def test_rows_with_external_ids_travel_apart_from_others_and_every_batch_has_a_key_of_its_own() -> None:
    said = [{"content": "a", "external_id": "1"}, {"content": "b"}, {"content": "c", "external_id": "2"}]
    first, again = batches(said), batches(said)
    assert [[row.line for row in item.rows] for item in first] == [[1, 3], [2]]
    assert [item.named for item in first] == [True, False]
    assert len({item.key for item in first + again}) == 4


def test_rows_of_two_namespaces_travel_apart() -> None:
    here, there = batches([{"content": "x"}, {"content": "x", "namespace": "other"}])
    assert (here.namespace, there.namespace) == (NAMESPACE, "other")


@pytest.mark.promise("IM-8", "SE-19")
def test_a_row_is_the_same_whether_its_secrets_are_left_out_or_kept() -> None:
    long = f"It begins. {'word ' * 9_000}\n\npassword = 'hunter2x'\n\n{'more ' * 3_000}"
    said: list[dict[str, Any]] = [
        {"content": "plain"},
        {"content": "password = 'hunter2x'"},
        {"content": "password = 'hunter3x'"},
        {"content": "noted", "metadata": {"password": "hunter2x"}},
        {"content": "password = 'hunter2x'", "external_id": "1"},
        {"content": long},
    ]
    counted = Secrets()
    left_out = identities(said, split=True, secrets=counted)
    kept = identities(said, split=True, secrets=Secrets(left_out=False))
    assert left_out == kept
    assert len(left_out) == len(set(left_out)) == 7, "that rows differ in a secret alone does not make them one"
    assert counted.found == 5


@pytest.mark.promise("SE-19")
def test_no_digest_tells_whether_a_guessed_password_is_right() -> None:
    for keeps in (True, False):
        first, second = (
            identities([{"content": f"password = '{word}'"}], secrets=Secrets(left_out=not keeps))
            for word in ("hunter2x", "hunter3x")
        )
        assert first == second


@pytest.mark.promise("SE-19")
def test_a_key_on_the_edge_of_two_pieces_is_left_out_whole() -> None:
    key = "\n".join(["-----BEGIN PRIVATE " + "KEY-----", *[f"MIIE{line:060}" for line in range(40)]])
    text = f"{'word ' * 6_400}\n{key}\n-----END PRIVATE " + f"KEY-----\n{'more ' * 400}"
    made = rows([{"content": text}], split=True)
    contents = [item.record.content for item in made if isinstance(item, CheckedRow)]
    assert len(contents) == 2
    assert not any("MIIE" in content for content in contents)
    raw = rows([{"content": text}], split=True, secrets=Secrets(left_out=False))
    assert all("MIIE" in item.record.content for item in raw if isinstance(item, CheckedRow))
