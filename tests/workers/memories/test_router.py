"""Where a new memory goes (decision 1 of the product)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from engramq.schemas.commands import NewMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import ALL_SCOPES, Partition, Scope, SourceType, Verification
from engramq.workers.trust import may_displace, route
from tests.refusals import refused

TRUSTED, UNTRUSTED = Partition.TRUSTED, Partition.UNTRUSTED
OWNER = Principal(name="owner", scopes=ALL_SCOPES)
STRANGER = Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True)
WRITER = Principal(name="writer", scopes=(Scope.READ, Scope.WRITE))

vouched_types = st.sampled_from([SourceType.TASK_OUTCOME, SourceType.ARCHITECTURAL_DECISION, SourceType.LESSON_LEARNED])
verifications = st.sampled_from(Verification)
source_types = st.one_of(st.just(UNSET), st.sampled_from(SourceType), st.text(min_size=1, max_size=30))
partitions = st.sampled_from([UNSET, TRUSTED, UNTRUSTED])


@pytest.mark.parametrize("one", Partition)
@pytest.mark.parametrize("other", Partition)
def test_no_untrusted_memory_displaces_a_trusted_one(one: Partition, other: Partition) -> None:
    assert may_displace(one, other) is not (one is UNTRUSTED and other is TRUSTED)


@pytest.mark.promise("TP-3")
def test_without_a_source_type_it_is_trusted() -> None:
    assert route(NewMemory(content="x"), OWNER) is TRUSTED


@pytest.mark.promise("TP-8")
@given(verifications)
def test_research_is_untrusted_whatever_its_verification(verification: Verification) -> None:
    assert route(NewMemory(content="x", source_type="research", verification=verification), OWNER) is UNTRUSTED


@pytest.mark.promise("TP-9")
@given(vouched_types, verifications)
def test_three_types_are_trusted_exactly_when_somebody_vouched_for_them(
    source_type: SourceType, verification: Verification
) -> None:
    vouched_for = verification in {Verification.VERIFIED, Verification.APPROVED}
    memory = NewMemory(content="x", source_type=source_type, verification=verification)
    assert route(memory, OWNER) is (TRUSTED if vouched_for else UNTRUSTED)


@pytest.mark.promise("TP-10")
@given(st.text(min_size=1).filter(lambda word: word not in set(SourceType)), verifications)
def test_an_unknown_type_is_untrusted(source_type: str, verification: Verification) -> None:
    assert route(NewMemory(content="x", source_type=source_type, verification=verification), OWNER) is UNTRUSTED


@pytest.mark.promise("TP-4")
@given(source_types, verifications)
def test_an_explicit_untrusted_always_holds(source_type: str, verification: Verification) -> None:
    memory = NewMemory(content="x", source_type=source_type, verification=verification, partition=UNTRUSTED)
    assert route(memory, OWNER) is UNTRUSTED


@pytest.mark.promise("TP-11")
@given(source_types, verifications)
def test_an_explicit_trusted_is_either_what_the_router_says_or_refused(
    source_type: str, verification: Verification
) -> None:
    memory = NewMemory(content="x", source_type=source_type, verification=verification)
    asked = NewMemory(content="x", source_type=source_type, verification=verification, partition=TRUSTED)
    if route(memory, OWNER) is TRUSTED:
        assert route(asked, OWNER) is TRUSTED
        return
    with refused(FaultCode.UNTRUSTED_SOURCE):
        route(asked, OWNER)


@pytest.mark.promise("TP-23")
@given(source_types, verifications, partitions)
def test_an_untrusted_principal_never_gets_into_trusted(
    source_type: str, verification: Verification, partition: Partition
) -> None:
    memory = NewMemory(content="x", source_type=source_type, verification=verification, partition=partition)
    if verification is Verification.UNVERIFIED and partition is not TRUSTED:
        assert route(memory, STRANGER) is UNTRUSTED
        return
    vouching = verification is not Verification.UNVERIFIED
    with refused(FaultCode.FORBIDDEN if vouching else FaultCode.UNTRUSTED_SOURCE):
        route(memory, STRANGER)


@pytest.mark.promise("TP-28")
@given(verifications.filter(lambda item: item is not Verification.UNVERIFIED), partitions)
def test_claiming_a_verification_needs_the_scope(verification: Verification, partition: Partition) -> None:
    with refused(FaultCode.FORBIDDEN):
        route(NewMemory(content="x", verification=verification, partition=partition), WRITER)
