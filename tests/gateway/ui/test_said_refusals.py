"""Each refusal and hint that gateway, schemas or workers may send to the page is said in each language of it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from engramq.gateway.budget import Body
from engramq.gateway.mcp.arguments import check_arguments
from engramq.gateway.overview import clock_check, dead_letters_check, queue_check, worker_check
from engramq.gateway.sessions import no_session
from engramq.gateway.ui.languages import read_messages
from engramq.gateway.ui.reasons import say_reason
from engramq.gateway.ui.request import PAGE_TOOLS, PageCallRefused, for_people
from engramq.schemas import server_checks
from engramq.schemas.checks import Check, CheckName, MailboxState, degraded
from engramq.schemas.clocks import clock_sentence
from engramq.schemas.commands import Pong
from engramq.schemas.faults import HINTS, HINTS_OF_IDS, EngramqError, FaultCode
from engramq.schemas.sentences import sentences_of
from engramq.schemas.server_checks import database_check, redis_check
from engramq.schemas.vocabulary import Linkability, WorkerKind
from engramq.workers.links.snapshot import not_active
from engramq.workers.memories.other_projects import places
from engramq.workers.search.handlers import HELD_THEN, REPLACED
from tests.architecture.source import ROOT
from tests.gateway.ui.browsing import Browser
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

RAISED: Final = {"invalid": 1, "refuse": 1, "_refuse": 0, "no_session": 1, "Fault": 9}  # the place of the error
TOLD: Final = ("error", "recovery", "hint")  # beside these, what a proposal would do is a refusal where that is nothing
VALUE: Final = "X"


def told_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yield each text that a module may put into a refusal or a hint, with VALUE for each value in it, and its line."""
    tree = ast.parse(file.read_text())
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        named = {ast.unparse(target): value for body in (tree, scope) for target, value in assigned_in(body)}
        for node in ast.walk(scope):
            for given in texts_given(node):
                yield from ((node.lineno, text) for text in texts_of(given, named, set()))  # type: ignore[attr-defined]


def assigned_in(body: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    nodes = ast.iter_child_nodes(body) if isinstance(body, ast.Module) else ast.walk(body)
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value


def texts_given(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is given for an error, a recovery or a hint."""
    if isinstance(node, ast.Call):
        place = RAISED.get(ast.unparse(node.func).rpartition(".")[2], 9)
        yield from node.args[place : place + 2]
        yield from (word.value for word in node.keywords if word.arg in TOLD)
        yield from (given for given in node.args if ast.unparse(given).startswith(("'Nothing: ", "'Nothing, ")))
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).rpartition(".")[2] in TOLD:
        yield node.value
    elif isinstance(node, ast.Return) and ast.unparse(node).startswith("return 'Nothing: "):
        yield from () if node.value is None else (node.value,)


def texts_of(given: ast.AST, named: dict[str, ast.expr], seen: set[str]) -> Iterator[str]:
    match given:
        case ast.JoinedStr(values=parts):
            yield "".join(VALUE if isinstance(part, ast.FormattedValue) else ast.literal_eval(part) for part in parts)
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in named and name not in seen:
            yield from texts_of(named[name], named, seen | {name})
        case ast.Subscript(value=part):
            yield from texts_of(part, named, seen)
        case ast.IfExp(body=one, orelse=other):
            yield from texts_of(one, named, seen)
            yield from texts_of(other, named, seen)
        case ast.Dict(values=parts) | ast.BoolOp(values=parts):
            for part in parts:
                yield from texts_of(part, named, seen)


# Modules and commands that answer other doors than the page.
OTHER_DOORS: Final = {
    "REST": ("gateway/rest/", "gateway/router.py", "gateway/protocol.py"),
    "MCP": ("gateway/mcp/guide.py", "gateway/replies.py", "gateway/service.py"),
    "metrics": ("gateway/metrics.py",),
    "checks of an installation": ("workers/db/readiness.py", "workers/embedders/", "workers/receipts.py"),
    "receipts, projects, duplicates": ("schemas/commands/receipts.py", "schemas/commands/bulk.py"),
    "purges and webhooks": ("schemas/commands/trust.py", "schemas/commands/system.py", "workers/webhooks/"),
    "links by query, and edges": ("workers/links/lookup.py", "workers/graph/edges.py"),
    "graph_list_edges without a node": ("schemas/commands/graph_reads.py",),
}
# Of modules that answer the page too: what it never asks for, and what it has words of its own for.
NOT_ASKED: Final = (
    f"{VALUE}: nothing in session {VALUE} answers to {VALUE}.",  # the page is in no session
    f"Give an id, {VALUE} after a store, or {VALUE}[N] after a search in the same session, N from 0.",
    f"{VALUE} was given twice: {VALUE} is another word for it.",  # it uses no aliases
    f"Give {VALUE} alone.",
    f"{VALUE}It takes {VALUE}.",  # nor unknown parameters
    "token_sha256 is no SHA-256 in hexadecimal.",  # it makes the digest itself
    f"expires_at is not within the next {VALUE} days.",  # it offers the times
    "Give a nearer time.",
    "`engramq token create` makes tokens that last.",
    "Leave it out, or use another word.",  # it connects by one relation
    f"{VALUE} is there already.",  # and never with if_exists="error"
    f"Nothing was written, since edges[{VALUE}]: {VALUE}",  # it has no batches of links
    f"`engramq graph restore {VALUE}{VALUE}` undoes this.",  # it deletes no edges
    "Have another principal, with the scope verify, approve the proposal, by a tool or on the page Consent.",
    f"Then {VALUE} within {VALUE} hours.",  # in place of both, `consent_required` has words in DONE
    f"Edge not found: {VALUE}",  # it lists the edges of nodes
    "Give one of topics, or none for the way of working.",
)
# Put together of several texts, see the tests below.
COMPOSED: Final = (
    f"{VALUE} {VALUE}",
    f"{VALUE} {VALUE}.",
    f"Give {VALUE}: {VALUE}. For example: {VALUE}",
    f"Memory {VALUE} {VALUE}{VALUE}.",
    f"The name {VALUE} is {VALUE} principal's, by its token {VALUE}.",
    f"{VALUE}until, {VALUE}, is earlier than {VALUE}since, {VALUE}.",
    f"{VALUE} has another relation than {VALUE}.",
    f"{VALUE}, so nothing was restored.",
    f"These are more {VALUE}",
    f'It belongs to memory {VALUE}, {VALUE}, and this row is {VALUE}: say visibility="{VALUE}" in it.',
)
GERMAN: Final = read_messages()["de"]


def english_in(text: str) -> set[str]:
    """Return the sentences of what the page tells that its German leaves as they are."""
    said = say_reason(text, GERMAN)
    return ({*sentences_of(text)} & {*sentences_of(said)}) - {VALUE}


def told_by_others() -> Iterator[str]:
    elsewhere = tuple(place for places in OTHER_DOORS.values() for place in places)
    for folder in ("gateway", "schemas", "workers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not str(file.relative_to(ROOT)).startswith(elsewhere):
                yield from (text for _, text in told_in(file) if " " in text)
    yield from (code.recovery for code in FaultCode)
    yield from (*HINTS.values(), *HINTS_OF_IDS.values())


def test_each_refusal_that_may_reach_the_page_is_said_in_german() -> None:
    told = {for_people({"recovery": text})["recovery"] for text in {*told_by_others()} - {*COMPOSED}}
    assert len(told) > 200
    assert {sentence for text in told for sentence in english_in(text)} - set(NOT_ASKED) == set()


def test_each_exception_is_still_told() -> None:
    told = set(told_by_others())
    sentences = {sentence for text in told for sentence in sentences_of(text)}
    assert {*NOT_ASKED, *COMPOSED} - told - sentences == set()


@pytest.mark.parametrize(
    "linkability", [each for each in Linkability if each not in (Linkability.ACTIVE, Linkability.PENDING)]
)
def test_each_reason_against_a_link_is_said_in_german(linkability: Linkability) -> None:
    for successor in (None, UUID(int=1)):
        fault = not_active("1", linkability, successor=successor, replacement=successor).fault
        for text in (fault.error, for_people({"recovery": fault.recovery})["recovery"]):
            assert english_in(text) == set()


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        (
            "store_memory",
            {},
            ["content fehlt.", "Geben Sie content an: ein nicht leerer Text von 1 bis 32768 Zeichen."],
        ),
        ("create_token", {"token_sha256": "0" * 64}, ["principal fehlt.", "Geben Sie principal an: "]),
        ("list_recent_memories", {"since": "2026-02-01", "until": "2026-01-01"}, ["Das Ende (until), 2026"]),
        ("list_recent_memories", {"stored_since": "2026-02-01", "stored_until": "2026-01-01"}, ["Das Ende (stored_"]),
        ("get_memory", {"memory_id": "1", "as_of": "9999-01-01"}, ["Der Zeitpunkt (as_of) liegt in der Zukunft."]),
        (
            "store_memory",
            {"content": "x", "confidence": 2},
            ["confidence: erwartet ist eine Zahl von 0 bis 1, nicht 2"],
        ),
        (
            "store_memory",
            {"content": "x", "valid_from": "2026-02-01", "valid_until": "2026-01-01"},
            ["valid_until, 2026-01-", "Geben Sie ein späteres valid_until oder"],
        ),
    ],
)
def test_a_refused_argument_is_said_in_german(tool: str, given: Body, said: list[str]) -> None:
    with pytest.raises(EngramqError) as refused:
        check_arguments(PAGE_TOOLS[tool], given)
    body = PageCallRefused.of(refused.value).body
    told = [text for text in (body["error"], body["recovery"]) if text]
    assert [text for text in told if english_in(text)] == []
    german = " ".join(say_reason(text, GERMAN) for text in told)
    assert [each for each in said if each not in german] == [], german


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (
            "It is not what was seen: tags and content changed since.",
            "Es ist nicht mehr, was Sie gesehen haben: Geändert sind seitdem tags und content.",
        ),
        (
            for_people({"recovery": no_session("x", "").fault.recovery})["recovery"],
            "Geben Sie die Kennung selbst an.",
        ),
        (
            "Nothing was done. Judge it as it is now.",
            "Nichts wurde getan. Beurteilen Sie es, wie es jetzt ist.",
        ),
        (
            "The link 'similar' between 1 and 2 has another relation than 'both_hold'.",
            "Die Verknüpfung 'similar' zwischen 1 und 2 hat eine andere Beziehung als 'both_hold'.",
        ),
        (
            "There is an edge A --KNOWS--> B again, so nothing was restored.",
            "Die Kante A --KNOWS--> B gibt es wieder, ",
        ),
        ("The line is no JSON: JSON is malformed: trailing characters (byte 8).", "danach folgen weitere Zeichen"),
        ("The name 'ada' is an untrusted principal's, by its token 1.", "hat ein ungeprüftes Konto"),
        ("An untrusted principal may supersede untrusted memories only.", "darf nur ungeprüfte Erinnerungen ersetzen."),
        (
            'It belongs to memory 1, which is private, and this row is shared: say visibility="private" in it.',
            "die privat ist, und diese Zeile ist geteilt",
        ),
    ],
)
def test_what_is_put_together_is_said_in_german(english: str, german: str) -> None:
    assert english_in(english) == set()
    assert german in say_reason(english, GERMAN)


def a_mailbox(**more: Any) -> MailboxState:
    usual: dict[str, Any] = {
        "kind": WorkerKind.EDGES,
        "depth": 1,
        "oldest_s": 900.0,
        "per_s": None,
        "dead": 2,
        "workers": 1,
    }
    return MailboxState(**(usual | more))


def checks_of_page() -> Iterator[Check]:
    """Yield each check that the page System may show, with what it says where it is not right."""
    recall = a_mailbox(kind=WorkerKind.RECALL, workers=2)
    yield from (worker_check([box], None) for box in (a_mailbox(workers=0), recall, a_mailbox(kind=WorkerKind.RECALL)))
    yield worker_check([a_mailbox(workers=0), a_mailbox(kind=WorkerKind.SECTORS, workers=0)], Pong())
    yield queue_check([a_mailbox(), a_mailbox(depth=3_000)])
    yield dead_letters_check([a_mailbox(), recall])
    yield clock_check(-9.0, {"worker a": 7.0})
    yield degraded(CheckName.CLOCK, clock_sentence("PostgreSQL", 9.0, "a worker's"))
    yield from (
        redis_check(refused) for refused in (*server_checks._REDIS_MENDS, "Redis does not let this user run GET.")
    )
    yield from (database_check(refused, reads=False) for refused in server_checks._DATABASE_MENDS)
    yield from (redis_check("", answers=False), database_check("", reads=False))
    yield from (degraded(name, "") for name in (CheckName.SCHEMA, CheckName.MODEL, CheckName.VECTORS))


def test_what_a_check_of_the_page_says_is_said_in_german() -> None:
    told = {text for check in checks_of_page() for text in (check.told, check.mend) if text}
    assert len(told) > 40
    assert {sentence for text in told for sentence in english_in(text)} == set()


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (
            REPLACED.format(id="X", then=HELD_THEN.format(day=2)),
            (
                "X hat eine frühere Erinnerung ersetzt: Der Filter „auch ersetzte“ zeigt sie, "
                '„Was galt am“ "2", was damals galt.'
            ),
        ),
        (
            REPLACED.format(id="X", then=""),
            "X hat eine frühere Erinnerung ersetzt: Der Filter „auch ersetzte“ zeigt sie.",
        ),
        (
            places({"laden": 2, "haus": 3, None: 1}, ("hit", "hits")),
            "2 Treffer im Projekt laden, 3 Treffer im Projekt haus, 1 Treffer in keinem Projekt.",
        ),
    ],
)
def test_what_a_search_says_beside_its_hits_is_said_in_german(english: str, german: str) -> None:
    assert say_reason(for_people({"notice": english})["notice"], GERMAN) == german


async def test_a_decision_in_the_inbox_is_told_in_the_readers_language(agent: Agent, browser: Browser) -> None:
    stored = await agent.store("A forum says so", source_type="research")
    browser.client.headers["accept-language"] = "de"
    row = {"hx-request": "true"}
    page = await browser.get("/ui/inbox")
    assert "Folgen Sie keinen Anweisungen" in (await browser.get(f"/ui/memories/{stored['id']}")).text
    changed = await agent.call("update_memory", memory_id=stored["id"], add_tags=["forum"])
    assert changed["status"] == "updated"
    refused = await browser.send(page, f"/ui/inbox/{stored['id']}/promote", row)
    assert (refused.status, "Geändert ist seitdem tags. Nichts wurde getan." in refused.text) == (409, True)
    page = await browser.get("/ui/inbox")
    done = await browser.send(page, f"/ui/inbox/{stored['id']}/promote", row)
    said = "Die Erinnerung ist jetzt geprüft: Suchen zeigen sie."
    assert (done.status, said in done.text) == (200, True)
    assert [given["data-said"] for _, given in done.reader.elements if "data-said" in given] == [said]


async def test_a_refused_list_and_entry_are_told_in_the_readers_language(here: Served) -> None:
    browser = await here.browser("ada")
    browser.client.headers["accept-language"] = "de"
    page = await browser.get("/ui/memories?cursor=x")
    for word in ("gehört nicht zu dieser Liste", "Beginnen Sie mit der ersten Seite"):
        assert word in page.text, word
    assert "next_cursor" not in page.text
    tokens = await browser.get("/ui/tokens")
    refused = await browser.send(tokens, "/ui/tokens", principal="", scopes="read", days="7")
    assert "principal fehlt." in refused.text or "principal: erwartet ist" in refused.text
    assert "Give " not in refused.text
