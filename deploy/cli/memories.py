"""The commands that call one tool each: search, survey, list, recent, standing, show, why, store, forget."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli import output
from engramq.deploy.cli.options import limit_option
from engramq.deploy.cli.tool_client import ToolClient, open_client
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.setting_values import integer, number
from engramq.schemas.vocabulary import EVERY_PROJECT, EvidenceFilter, Partition, Sector, SurveyOrder

PIPE: Final = "-"
MOST_BYTES: Final = 1024 * 1024  # of standard input: several times what one memory holds
# Arguments that leave nothing out, or that the sentence about an empty list names by themselves.
_NO_FILTERS: Final = frozenset(
    {"query", "limit", "max_chars", "cursor", "partitions", "include_untrusted", "project", "project_only"}
)


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@limit_option(50, 10, "How many at most, the best.")
@common.options(common.TAG, common.PROJECT, common.ONLY, common.PARTITION, common.SECTOR, common.THREAD)
@common.span_options
@click.option("--min-relevance", type=number(0, 1), metavar="SHARE", help="Least chance to help; 0, the default: all.")
@common.options(common.AS_OF, common.SUPERSEDED, common.NAMESPACE, common.JSON)
def search(query: tuple[str, ...], limit: int, namespace: str | None, *, as_json: bool, **filters: Any) -> ExitCode:
    """Find memories by meaning and words, likely ones first.

    The words of QUERY need no quotation marks. Elsewhere than on a terminal each memory is one line, with tabs between
    id, time, marks, content and relevance.
    """
    asked = {"query": " ".join(query), "limit": limit, "max_chars": common.WHOLE_REPLY, "min_relevance": 0}
    return _find(namespace, "search_memories", asked | common.arguments(filters), output.draw_hits, as_json=as_json)


@click.command("survey")
@click.argument("topic", nargs=-1, required=True)
@limit_option(100, 40, "How many extracts at most; fewer have longer texts.")
@common.options(common.TAG, common.PROJECT, common.THREAD)
@common.span_options
@click.option("--order", type=click.Choice([str(word) for word in SurveyOrder]), help="Default: time.")
@click.option("--cursor", metavar="TEXT", help="Where the last page ended.")
@common.options(common.NAMESPACE, common.JSON)
def survey(topic: tuple[str, ...], limit: int, namespace: str | None, *, as_json: bool, **filters: Any) -> ExitCode:
    """Survey a topic: extracts of all about it, in order of time.

    The words of TOPIC need no quotation marks. Each extract is one line, with tabs between id, day and text.
    """
    asked = {"topic": " ".join(topic), "limit": limit, "max_chars": common.WHOLE_REPLY, **common.arguments(filters)}
    with open_client(namespace) as gateway:
        return output.print_reply(gateway.call("survey_memories", asked), _draw_survey, as_json=as_json)


def _draw_survey(reply: output.ReplyBody) -> None:
    for extract in reply["extracts"]:
        same = f" (and {extract['same']} like it)" if extract.get("same") else ""
        click.echo("\t".join((extract["id"], extract["at"], output.printable(extract["text"]) + same)))
    totals = reply["totals"]
    by_month = ", ".join(f"{month}: {count}" for month, count in totals["by_month"].items())
    named = f"Name it: {totals['named']}" + (f" ({by_month})" if by_month else "")
    click.echo(f"{named}; others that may be about it: {totals['near']}", err=True)
    if reply.get("next_cursor"):
        click.echo(f"There are more: --cursor {reply['next_cursor']}", err=True)


@click.command("list")
@limit_option(100, 20, "How many at most, the newest.")
@common.options(common.TAG, common.PROJECT, common.ONLY, common.PARTITION, common.SECTOR, common.STATE)
@common.options(common.VERIFICATION, common.THREAD, common.span_options)
@click.option("--source-type", metavar="WORD", help="Where it came from, as its author said.")
@click.option("--created-by", metavar="PRINCIPAL", help="Whose it is.")
@click.option("--external-id", metavar="ID", help="The one that has this id in another system.")
@click.option("--stale", "evidence", flag_value=EvidenceFilter.STALE.value, help="Those that rest on what has changed.")
@common.options(common.AS_OF, common.SUPERSEDED)
@click.option("--cursor", metavar="TEXT", help="Where the last list ended.")
@common.options(common.NAMESPACE, common.JSON)
def list_memories(limit: int, namespace: str | None, *, as_json: bool, **filters: Any) -> ExitCode:
    """List memories, newest first, all that the options name.

    Memories that wait for review: --partition untrusted --verification unverified.
    """
    asked = {"limit": limit, "max_chars": common.WHOLE_REPLY, **common.arguments(filters)}
    return _find(namespace, "list_recent_memories", asked, output.draw_page, as_json=as_json)


@click.command("recent")
@click.argument("count", type=integer(1, 100), default="10")
@common.options(common.PROJECT, common.ONLY, common.NAMESPACE, common.JSON)
def recent(count: int, namespace: str | None, *, as_json: bool, **filters: Any) -> ExitCode:
    """Show the newest memories, of every kind of trust.

    COUNT is how many, 10 unless given.
    """
    asked = {"limit": count, "max_chars": common.WHOLE_REPLY, "partitions": list(Partition)}
    asked |= common.arguments(filters)
    return _find(namespace, "list_recent_memories", asked, output.draw_list, as_json=as_json)


@click.command("standing")
@click.option("--untrusted", is_flag=True, help="Also what is kept apart.")
@common.options(common.PROJECT, common.NAMESPACE, common.JSON)
def standing(namespace: str | None, *, untrusted: bool, as_json: bool, **filters: Any) -> ExitCode:
    """List standing wishes ("always", "from now on"), newest first."""
    asked = {"include_untrusted": untrusted, "max_chars": common.WHOLE_REPLY, **common.arguments(filters)}
    return _find(namespace, "list_standing", asked, output.draw_list, as_json=as_json)


def _find(
    namespace: str | None,
    tool: str,
    asked: Mapping[str, Any],
    draw: Callable[[output.ReplyBody], None],
    *,
    as_json: bool,
) -> ExitCode:
    """Call a tool that answers with memories, and print them as `print_reply` does; raises what it and the call raise.

    Where nothing was found it says what was looked at.
    """
    with open_client(namespace) as gateway:
        reply = gateway.call(tool, asked)
        code = output.print_reply(reply, draw, as_json=as_json)
        if not reply.get("memories", True):
            project = asked["project"] if "project" in asked else _own_project(gateway)
            click.echo(_nothing_found(asked, project), err=True)
        return code


def _nothing_found(arguments: Mapping[str, Any], project: str | None) -> str:
    """Return a sentence that says no more than was looked at; `project`: None for none, "" where it is not known."""
    filters = {name for name, value in arguments.items() if value} - _NO_FILTERS
    both = arguments.get("include_untrusted")
    partitions = " and ".join(Partition if both else arguments.get("partitions") or [Partition.TRUSTED])
    outside = "that are in no project"
    if project is None:
        where = outside
    elif project == EVERY_PROJECT:
        where = "of all projects"
    elif project:
        where = f"of project {output.quoted(project)}" + (
            "" if arguments.get("project_only") else f" and those {outside}"
        )
    else:
        where = "where calls look that name no project"
    return f"Nothing {'that passes the filters ' if filters else ''}was found among the {partitions} memories {where}."


def _own_project(gateway: ToolClient) -> str | None:
    """Return the project of calls that name none: the environment says it, or the token, or the gateway."""
    try:
        project: str | None = gateway.call("memory_stats", {}).get("project", "")
    except CommandFailed:  # a gateway elsewhere may offer fewer tools: the reply is printed all the same
        return ""
    return project


@click.command("show")
@click.argument("identifier", metavar="ID")
@click.option("--part", metavar="N", help="A part of a long content alone, from 1 on.")
@click.option("--untrusted", is_flag=True, help="Also one that is kept apart.")
@common.options(common.AS_OF, common.NAMESPACE, common.JSON)
def show(
    identifier: str, part: str | None, as_of: str | None, namespace: str | None, *, untrusted: bool, as_json: bool
) -> ExitCode:
    """Show one memory whole, with its links.

    ID may be its beginning, of 8 characters or more, if no other has that.
    """
    with open_client(namespace) as gateway:
        asked = {"include_untrusted": untrusted, "part": part, "as_of": as_of, "detail": "full"}
        given = {"memory_id": gateway.resolve_id(identifier), "max_chars": common.WHOLE_REPLY}
        reply = gateway.call("get_memory", {**given, **common.arguments(asked)})
        return output.print_reply(reply, output.draw_memory, as_json=as_json)


@click.command("why")
@click.argument("identifier", metavar="ID")
@click.option("--untrusted", is_flag=True, help="Also of one that is kept apart.")
@common.options(common.NAMESPACE, common.JSON)
def why(identifier: str, namespace: str | None, *, untrusted: bool, as_json: bool) -> ExitCode:
    """Say why a memory is known: who stored, trusted, replaced and used it, and what it rests on.

    ID may be its beginning, of 8 characters or more, if no other has that. Each line has tabs between what it is
    about, time, principal, text, the other memory's id, reason and number in the audit log.
    """
    with open_client(namespace) as gateway:
        asked = {"memory_id": gateway.resolve_id(identifier), "include_untrusted": untrusted}
        return output.print_reply(gateway.call("why", asked), _draw_card, as_json=as_json)


def _draw_card(reply: output.ReplyBody) -> None:
    click.echo(f"{reply['about']['id']}\t{output.printable(reply['about']['preview'] or '')}")
    kinds = {kind: lines for kind, lines in reply.items() if isinstance(lines, list)}
    for kind, lines in kinds.items():
        for line in lines:
            texts = (str(line.get(name, "")) for name in ("at", "by", "says", "memory_id", "reason", "audit_id"))
            click.echo("\t".join((kind.replace("_", " "), *map(output.printable, texts))))
    if reply.get("omitted"):
        click.echo(f"{reply['omitted']} older lines are left out.", err=True)


def _properties(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ValueError(f"{text!r} is no JSON object")
    return given


described: Final = common.options(  # what `store` and `update` say about a memory
    click.option("--sector", type=click.Choice([str(word) for word in Sector]), help="Default: by its words."),
    click.option("--speaker", metavar="NAME", help="Who said it."),
    click.option("--occurred-at", metavar="TIME", help="When it happened: a date, or a time."),
    common.THREAD,
    click.option("--confidence", metavar="X", type=float, help="How sure you are, from 0 to 1."),
    click.option("--valid-from", metavar="TIME", help="From when it holds."),
    click.option("--valid-until", metavar="TIME", help="Until when it holds."),
    click.option("--expires-at", metavar="TIME", help="When it is to be forgotten."),
    click.option("--standing/--not-standing", default=None, help="A standing wish, or none; default: by its words."),
    common.PRIVATE,
    common.EVIDENCE,
    click.option("--metadata", metavar="JSON", type=_properties, help="An object that is kept with it."),
)


def _content(words: tuple[str, ...]) -> str:
    if words and words != (PIPE,):
        return " ".join(words)
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed.")
    if sys.stdin.isatty() and not words:
        raise click.UsageError("Say what is to be stored, or give it on standard input.")
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise click.UsageError("That is too long for one memory: `engramq import --split` makes several of a text.")
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise click.UsageError("Standard input is no text in UTF-8.") from None


@click.command("store")
@click.argument("content", nargs=-1)
@common.TAG
@click.option("--project", metavar="NAME", help="Whose it is. Default: ENGRAMQ_PROJECT, else nobody's.")
@click.option("--partition", type=click.Choice([str(word) for word in Partition]), help="untrusted: keep it apart.")
@click.option("--source-type", metavar="WORD", help="Where it comes from, if not from you: kept apart then.")
@click.option("--external-id", metavar="ID", help="An id of your own, used once.")
@described
@common.options(common.NAMESPACE, common.JSON)
def store(content: tuple[str, ...], namespace: str | None, *, as_json: bool, **fields: Any) -> ExitCode:
    """Keep one memory, and print its id.

    The words of CONTENT need no quotation marks; without any, or as -, it is read from standard input. The command
    names similar memories that are stored already.
    """
    memory = {"content": _content(content), "source": "explicit", **common.arguments(fields)}
    with open_client(namespace) as gateway:
        return output.print_reply(
            gateway.write("store_memory", gateway.resolve_cited_ids(memory)), _draw_stored, as_json=as_json
        )


def _draw_stored(reply: output.ReplyBody) -> None:
    click.echo(reply["stored"]["id"])
    for memory in reply["similar_memories"]:
        preview = memory.get("preview") or memory.get("content") or ""
        click.echo(f"similar ({memory['similarity']:.2f}): {memory['id']}  {output.printable(preview)[:100]}", err=True)


@click.command("forget")
@click.argument("identifier", metavar="ID")
@common.REASON
@click.option("--erase", is_flag=True, help="Remove it for good, links and all: nothing brings it back.")
@click.option("--yes", is_flag=True, help="With --erase: do not ask.")
@common.options(common.NAMESPACE, common.JSON)
def forget(
    identifier: str, reason: str | None, namespace: str | None, *, erase: bool, yes: bool, as_json: bool
) -> ExitCode:
    """Hide a memory from searches and lists, or erase it for good.

    engramq restore ID brings it back.

    ID may be its beginning, of 8 characters or more, if no other has that.
    """
    with open_client(namespace) as gateway:
        meant = gateway.resolve_id(identifier)
        if erase and not yes:
            if not common.can_ask():
                raise click.UsageError("--erase takes --yes where nobody can be asked.")
            click.confirm(f"Erase {meant} for good?", abort=True, err=True)
        asked = {"memory_id": meant, **common.arguments({"reason": reason, "erase": erase})}
        return output.print_reply(gateway.write("forget_memory", asked), output.draw_status, as_json=as_json)
