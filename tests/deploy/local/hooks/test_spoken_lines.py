"""What people say stands in many kinds of lines: each comes in once, by hooks and imports alike.

Lines are of the forms that the clients write, cut to what tells the form.
"""

import json
import time
from pathlib import Path

import pytest

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.transcript_files import StoredSession, client_of, said_in_file
from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.capture import LOG, capture
from engramq.deploy.local.hooks.connection import HookConnection
from engramq.deploy.local.hooks.events import read_event
from engramq.deploy.local.hooks.notes import SessionNotes, unknown_kinds
from engramq.deploy.local.hooks.transcripts import CLAUDE_CODE, CLIENTS, CODEX, GEMINI
from engramq.deploy.local.hooks.turns import ClientFormat, SessionFacts, Spoken, Turn, spoken_text
from tests.deploy.local.hooks.gateway import answering
from tests.deploy.local.hooks.spoken import CODEX_SAID, GEMINI_SAID, Line, at, event, meta
from tests.deploy.local.hooks.spoken_claude_code import CLAUDE_CODE_SAID, KETTLE, VEGAN, attach, claude, queue, user

pytestmark = [pytest.mark.promise("SN-1"), pytest.mark.timeout(120)]


def written(folder: Path, name: str, lines: list[Line]) -> Path:
    path = folder / name
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def imported(client: ClientFormat, path: Path) -> tuple[list[Turn], list[str]]:
    said = list(said_in_file(client, StoredSession(str(path), path.stat().st_size, 0.0)))
    return [each.turn for each in said if isinstance(each, Spoken)], [
        each.what for each in said if isinstance(each, LeftOut)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.ensure()
    return home


def captured(home: Home, client: str, path: Path, *, has_ended: bool = False) -> dict[str, str]:
    """Capture as a hook does; return what went in, by its id."""
    notes = SessionNotes(home, client, "S")
    notes.transcript = str(path)
    notes.has_spoken = True
    with answering(home) as calls:
        memory = HookConnection(home, client, "default", "", time.monotonic() + 60)
        capture(memory, notes, has_ended=has_ended)
        memory.close()
    records = [record for call in calls for record in call["arguments"]["records"]]
    return {record["external_id"]: record["content"] for record in records}


CASES = [
    pytest.param(client, lines, texts, id=f"{client.name}: {name}")
    for client, several in ((CLAUDE_CODE, CLAUDE_CODE_SAID), (CODEX, CODEX_SAID), (GEMINI, GEMINI_SAID))
    for name, (lines, texts) in several.items()
]


@pytest.mark.parametrize(("client", "lines", "texts"), CASES)
def test_what_was_said_comes_in_once_however_it_is_written(
    tmp_path: Path, home: Home, client: ClientFormat, lines: list[Line], texts: list[str]
) -> None:
    path = written(tmp_path, "session.jsonl", lines)
    turns, _ = imported(client, path)
    assert [turn.text for turn in turns] == texts
    records = captured(home, client.name, path, has_ended=True)
    assert sorted(records.values()) == sorted(texts)
    assert set(records) == {f"{client.name}:{turn.key}" for turn in turns}, "a hook and an import know the same turn"


def kinds_of(lines: list[Line]) -> set[str]:
    return {str(line.get("operation", line["type"])) for line in lines if "type" in line}


# No event stands between words that leave the queue and are attached: the client writes both at once.
APART = [case for case in CASES if not {"remove", "attachment"} <= kinds_of(case.values[1])]  # type: ignore[arg-type]


@pytest.mark.parametrize(("client", "lines", "texts"), APART)
def test_hooks_that_come_after_each_line_keep_the_same(
    tmp_path: Path, home: Home, client: ClientFormat, lines: list[Line], texts: list[str]
) -> None:
    kinds = kinds_of(lines)
    records: dict[str, str] = {}
    path = tmp_path / "session.jsonl"
    for number, line in enumerate(lines, 1):
        # A message stands beside its event.
        is_message = line.get("payload", {}).get("type") == "message" and "internal_context" not in json.dumps(line)
        if client is CODEX and is_message and "event_msg" in kinds:
            continue
        written(tmp_path, path.name, [line])
        records |= captured(home, client.name, path, has_ended=number == len(lines))
    assert sorted(records.values()) == sorted(texts)


def test_a_fork_of_codex_brings_only_what_is_new(tmp_path: Path, home: Home) -> None:
    said = [("user_message", "Green."), ("agent_message", "Yes."), ("user_message", "Blue."), ("agent_message", "Yes.")]
    origin = [meta(0, "A"), *(event(10 * number, kind, text) for number, (kind, text) in enumerate(said, 1))]
    fork = [meta(90, "B", forked_from_id="A"), *(event(90, kind, text) for kind, text in said)]
    fork += [event(120, "user_message", "Yes."), event(121, "agent_message", "Yes.")]
    origin += [event(200, "user_message", "Yes.")]
    keys = [
        turn.key
        for name, lines in (("a.jsonl", origin), ("b.jsonl", fork))
        for turn in imported(CODEX, written(tmp_path, name, lines))[0]
    ]
    assert len(keys) == 11
    assert len(set(keys)) == 7


def test_words_that_begin_a_fork_of_codex_are_none_of_its_origin(tmp_path: Path) -> None:
    said = [event(1, "user_message", "Go on."), event(2, "agent_message", "Yes.")]
    origin = written(tmp_path, "a.jsonl", [meta(0, "A"), *said])
    fork = written(tmp_path, "b.jsonl", [meta(1, "B", forked_from_id="A", forked_from_ordinal_exclusive=9), *said])
    keys = {turn.key for path in (origin, fork) for turn in imported(CODEX, path)[0]}
    assert len(keys) == 4


def test_an_old_session_of_codex_is_known_with_its_folder(tmp_path: Path) -> None:
    path = written(tmp_path, "rollout.jsonl", CODEX_SAID["before there were events"][0])
    assert client_of(path, tuple(CLIENTS.values())) == "codex"
    said = list(said_in_file(CODEX, StoredSession(str(path), 0, 0.0)))
    facts = [each for each in said if isinstance(each, SessionFacts)]
    assert ("A", "/tea") in [each[:2] for each in facts]
    assert {each.began for each in facts} == {at(0)}, "its turns have no time of their own"
    assert [each.turn.position for each in said if isinstance(each, Spoken)] == [0, 1]


def test_a_session_that_goes_on_from_a_copy_has_in_sight_what_it_was_told() -> None:
    given = {"hook_event_name": "SessionStart", "session_id": "S", "source": "fork"}
    assert not read_event(json.dumps(given).encode(), CLAUDE_CODE).starts_anew


UNKNOWN: dict[str, tuple[ClientFormat, Line]] = {
    "queued_thing": (CLAUDE_CODE, claude(2, "queued_thing", words="Mint.")),
    "typed_later": (CLAUDE_CODE, claude(2, "attachment", attachment={"type": "typed_later", "prompt": "Mint."})),
    "spoken_note": (CODEX, {"timestamp": at(2), "type": "event_msg", "payload": {"type": "spoken_note", "text": "x"}}),
    "new_line": (CODEX, {"timestamp": at(2), "type": "new_line", "payload": {"words": "Mint."}}),
    "voice": (GEMINI, {"id": "g", "timestamp": at(2), "type": "voice", "content": "Mint."}),
}


@pytest.mark.promise("SN-2")
@pytest.mark.parametrize("kind", UNKNOWN)
def test_lines_of_an_unknown_kind_are_counted_by_name_and_read_again_by_a_version_that_knows_it(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    client, line = UNKNOWN[kind]
    said = {
        "claude-code": user(1, "Tea."),
        "codex": event(1, "user_message", "Tea."),
        "gemini": {"id": "a", "timestamp": at(1), "type": "user", "content": "Tea."},
    }[client.name]
    path = written(tmp_path, "session.jsonl", [said, line, line])
    turns, left_out = imported(client, path)
    assert [turn.text for turn in turns] == ["Tea."]
    assert left_out == [f"lines of a kind that this version does not know: {kind}"] * 2

    assert list(captured(home, client.name, path).values()) == ["Tea."]
    assert unknown_kinds(home) == {(client.name, kind): 2}
    told = (home.logs / LOG).read_text()
    assert f"2 {kind}" in told
    assert "Mint" not in told
    assert captured(home, client.name, path) == {}, "nothing is new"

    monkeypatch.setitem(CLIENTS, client.name, client._replace(kinds=client.kinds | {kind}))
    notes = SessionNotes(home, client.name, "S")
    before = notes.offset
    captured(home, client.name, path)
    assert unknown_kinds(home) == {}
    assert SessionNotes(home, client.name, "S").offset == before


@pytest.mark.promise("SN-2")
def test_the_name_of_a_kind_is_shown_only_if_it_can_be_one(tmp_path: Path) -> None:
    lines = [user(1, "Tea."), *(claude(2, f"my secret {number}") for number in range(3))]
    _, left_out = imported(CLAUDE_CODE, written(tmp_path, "session.jsonl", lines))
    assert left_out == ["lines of a kind that this version does not know: ?"] * 3


@pytest.mark.parametrize(
    "text", ["\n<bash-input>", "\n<command-args>", "<command-name>", " " * 8 + "<system-reminder>\n"]
)
def test_marks_that_are_never_closed_take_no_longer_than_their_text(text: str) -> None:
    many = text * 20_000
    begun = time.process_time()
    assert spoken_text(many) == many.strip()
    assert time.process_time() - begun < 2, "twice as many would take four times as long"


def test_words_that_a_killed_client_left_in_its_queue_hold_no_later_turn_back(tmp_path: Path, home: Home) -> None:
    lines = [queue(1, "enqueue", content=KETTLE), *(user(second, f"Cup {second}.") for second in range(2, 72))]
    path = written(tmp_path, "session.jsonl", lines)
    assert KETTLE in captured(home, "claude-code", path).values()
    assert KETTLE in [turn.text for turn in imported(CLAUDE_CODE, path)[0]]
    assert SessionNotes(home, "claude-code", "S").offset == path.stat().st_size


@pytest.mark.parametrize("then", [queue(2, "remove", content="Never mind."), attach(2, "Never mind.")])
def test_a_queue_that_nobody_takes_from_takes_no_longer_than_its_lines(tmp_path: Path, then: Line) -> None:
    lines = [user(0, "Tea."), *(queue(1, "enqueue", content=f"Cup {number}.") for number in range(8_000))]
    path = written(tmp_path, "session.jsonl", [*lines, *[then] * 8_000])
    begun = time.process_time()
    assert len(imported(CLAUDE_CODE, path)[0]) > 1
    assert time.process_time() - begun < 3, "twice as many would take four times as long"


def test_a_last_object_is_whole_whether_or_not_its_line_has_an_end(tmp_path: Path, home: Home) -> None:
    path = written(tmp_path, "session.jsonl", [user(1, VEGAN)])
    with path.open("a") as file:
        file.write(json.dumps(user(2, KETTLE)))
    turns, left_out = imported(CLAUDE_CODE, path)
    assert ([turn.text for turn in turns], left_out) == ([VEGAN, KETTLE], [])
    assert list(captured(home, CLAUDE_CODE.name, path).values()) == [VEGAN, KETTLE]
    with path.open("a") as file:
        file.write("\n" + json.dumps(user(3, "Go on."))[:60])
    turns, left_out = imported(CLAUDE_CODE, path)
    assert ([turn.text for turn in turns], left_out) == ([VEGAN, KETTLE], ["last lines that are half written"])


@pytest.mark.parametrize("end", ["", "\n"])
def test_objects_behind_each_other_on_a_line_are_lines_each(tmp_path: Path, home: Home, end: str) -> None:
    """As a client writes them that goes on where it was killed."""
    path = tmp_path / "session.jsonl"
    several = [user(1, f"{VEGAN} Ünder }}{{"), user(2, KETTLE), user(3, "Go on.")]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) for line in several) + end)
    said = [f"{VEGAN} Ünder }}{{", KETTLE, "Go on."]
    assert [turn.text for turn in imported(CLAUDE_CODE, path)[0]] == said
    assert list(captured(home, CLAUDE_CODE.name, path).values()) == said
    assert SessionNotes(home, "claude-code", "S").offset == path.stat().st_size
    with path.open("a") as file:
        file.write(json.dumps(user(4, "Stop.")) + json.dumps(user(5, "Tea."))[:40])
    turns, left_out = imported(CLAUDE_CODE, path)
    assert ([turn.text for turn in turns], left_out) == ([*said, "Stop."], ["last lines that are half written"])
    assert list(captured(home, CLAUDE_CODE.name, path).values()) == ["Stop."]


def test_many_objects_on_a_line_take_no_longer_than_it(tmp_path: Path) -> None:
    def seconds(objects: int) -> float:
        path = tmp_path / f"{objects}.jsonl"
        path.write_text(json.dumps(user(1, VEGAN)) + "{}" * objects + "\n")
        begun = time.process_time()
        assert [turn.text for turn in imported(CLAUDE_CODE, path)[0]] == [VEGAN]
        return time.process_time() - begun

    assert seconds(96_000) < 16 * seconds(12_000), "a time that grows with the square would be 64 times as long"
