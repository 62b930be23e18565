"""Redis keys: no name that a user chooses can end, forge or share another one's key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.schemas.connection import UnsupportedServer, check_server
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WorkerKind

KEYS = Keys("engramq")
names = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["", ":", "::", "a:b", "%3A", "%", "*", "{x}", "\n", "a\0b", "default", "é", "!", "!a"]
)
Session = tuple[str, PrincipalId, str]
sessions = st.tuples(names, st.builds(PrincipalId, names, st.booleans()), names)


@given(sessions, sessions)
def test_different_sessions_have_different_keys(one: Session, other: Session) -> None:
    ones, others = KEYS.session(*one), KEYS.session(*other)
    assert (ones.state == others.state) == (one == other)
    assert (ones.touched == others.touched) == (one == other)
    assert (ones.name == others.name) == (one == other)
    assert (ones.sessions == others.sessions) == (one[:2] == other[:2])
    assert (ones.principals == others.principals) == (one[0] == other[0])


@given(names, names)
def test_different_namespaces_and_commands_have_different_keys(one: str, other: str) -> None:
    assert (KEYS.principals(one) == KEYS.principals(other)) == (one == other)
    assert (KEYS.note(one) == KEYS.note(other)) == (one == other)


@given(sessions, names)
def test_a_users_name_cannot_reach_a_key_of_another_sort(session: Session, name: str) -> None:
    theirs = {*KEYS.session(*session)[:4], KEYS.page_sessions(*session[:2]), KEYS.note(name)}
    assert len(theirs) == 6
    ours = {KEYS.reply_lists, KEYS.cursor_secret, KEYS.replies("gateway")}
    for kind in WorkerKind:
        ours |= {*KEYS.of[kind], KEYS.schedule(kind, name), KEYS.interrupt(kind, "worker")}
    assert not theirs & ours
    assert len(ours) == 3 + 12 * len(WorkerKind)


@given(sessions)
def test_keys_have_no_character_that_redis_or_a_log_line_reads_otherwise(session: Session) -> None:
    key = KEYS.session(*session).state
    assert key.isascii()
    assert key.isprintable()
    assert not set(key) & set("*?[]{}\\ ")
    assert key.count(":") == 4


@given(sessions)
def test_a_listed_session_leads_back_to_its_keys(session: Session) -> None:
    keys = KEYS.session(*session)
    assert KEYS.session_keys_of(keys.name) == (keys.state, keys.touched)
    assert KEYS.principals(session[0]) == keys.principals


def test_prefixes_tell_installations_apart() -> None:
    assert KEYS.of[WorkerKind.EDGES].mailbox == "engramq:mailbox:edges"
    assert Keys("other").of[WorkerKind.EDGES].mailbox != KEYS.of[WorkerKind.EDGES].mailbox


def test_a_redis_before_7_is_refused_naming_its_version() -> None:
    for old in ("6.2.14", "5.0.3", "6"):
        with pytest.raises(UnsupportedServer, match=rf"Redis {old} is too old: engramq needs Redis 7\.0"):
            check_server(f"# Server\r\nredis_version:{old}\r\nos:Linux\r\n")


def test_redis_7_8_and_valkey_are_taken() -> None:
    for info in ("redis_version:7.0.0", "redis_version:8.2.1", "redis_version:7.2.4\r\nvalkey_version:9.1.2"):
        check_server(f"# Server\r\n{info}\r\n")
