"""The commands that judge and correct what is kept: verify, promote, reject, supersede and update."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli import output
from engramq.deploy.cli.memories import described
from engramq.deploy.cli.receipt import verify_receipt
from engramq.deploy.cli.tool_client import ToolClient, open_client
from engramq.schemas import limits
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.setting_values import integer
from engramq.schemas.vocabulary import Verification

_IDS = click.argument("identifiers", metavar="ID...", nargs=-1, required=True)
_SEEN = click.option(
    "--seen", metavar="DIGEST", help="Only if it is still what list --json or show --json showed with this digest."
)
_YES = click.option("--yes", is_flag=True, help="Do not ask, and judge it as it is by then.")

_NOBODY_SAW: Final = (
    "Nobody can be asked here. Give --seen DIGEST, the digest that `engramq list --json` or `engramq show --untrusted "
    "ID --json` gave with the text that you read, or --yes for whatever the text is by now."
)


@click.command("verify")
@_IDS
@click.option("--approved", is_flag=True, help="More than verified: somebody answers for it.")
@click.option("--key", metavar="KEY", help="For a receipt: the public key that has to have signed it, or its file.")
@click.option("--live", is_flag=True, help="For a receipt: check also whether the audit log still has the same.")
@common.options(common.REASON, _SEEN, _YES, common.NAMESPACE, common.JSON)
def verify(
    identifiers: tuple[str, ...], reason: str | None, *, approved: bool, key: str | None, live: bool, **how: Any
) -> ExitCode:
    """Say that memories were checked against their source. With the FILE of a receipt: check that, without a
    network; with --live against the audit log too.

    Each is shown with a question, and verified only if it is still what was shown; off a terminal that takes --seen or
    --yes. Untrusted ones stay so: engramq promote makes them trusted. An ID may be its beginning, of 8 characters or
    more, if no other has that.
    """
    file = Path(identifiers[0])
    if len(identifiers) == 1 and file.is_file():
        if approved or reason or how["seen"] or how["yes"]:
            raise click.UsageError(f"{file} is a file: a receipt takes --key, --live, --namespace and --json alone.")
        return verify_receipt(file, key, as_json=how["as_json"], live=live, namespace=how["namespace"])
    if key is not None or live:
        raise click.UsageError(f"--key and --live are for the file of a receipt, and {identifiers[0]} is no file.")
    given = {"verification": Verification.APPROVED if approved else Verification.VERIFIED, "reason": reason}
    return _each(identifiers, "verify_memory", given, **how)


def _verdict(name: str, tool: str, text: str, back: str = "", *, reason: bool = True, **fixed: Any) -> click.Command:
    """Return the command that calls a tool for each memory that somebody has looked at."""

    @click.command(
        name,
        help=f"{text}\n\nEach is shown with a question, and left alone if it has changed since; off a terminal that "
        f"takes --seen or --yes.{back} An ID may be its beginning, of 8 characters or more, if no other "
        "has that.",
    )
    @_IDS
    @common.options(*([common.REASON] if reason else ()), _SEEN, _YES, common.NAMESPACE, common.JSON)
    def judge(identifiers: tuple[str, ...], reason: str | None = None, **how: Any) -> ExitCode:
        return _each(identifiers, tool, {**fixed, "reason": reason}, **how)

    return judge


reject: Final = _verdict(
    "reject", "verify_memory", "Say that memories are false or misleading, which hides them.",
    " engramq verify takes that back.", verification=Verification.REJECTED,
)  # fmt: skip
promote: Final = _verdict(
    "promote", "memory_promote_to_trusted", "Make verified memories trusted, so that searches show them.", reason=False
)
share: Final = _verdict(
    "share", "share_memory", "Let everybody in the namespace see private memories of yours.",
    " engramq unshare takes that back.",
)  # fmt: skip


@click.command("unshare")
@_IDS
@common.options(common.NAMESPACE, common.JSON)
def unshare(identifiers: tuple[str, ...], namespace: str | None, *, as_json: bool) -> ExitCode:
    """Make memories private again, as long as nobody has built on them.

    An ID may be its beginning, of 8 characters or more, if no other has that.
    """
    codes = [ExitCode.DONE]
    with open_client(namespace) as gateway:
        for meant in [gateway.resolve_id(text) for text in identifiers]:
            reply = gateway.write("unshare_memory", {"memory_id": meant})
            codes.append(output.print_reply(reply, partial(_draw, meant), as_json=as_json))
    return next((code for code in codes if code != ExitCode.DONE), ExitCode.DONE)


def _each(
    identifiers: tuple[str, ...],
    tool: str,
    given: Mapping[str, Any],
    *,
    namespace: str | None,
    seen: str | None,
    yes: bool,
    as_json: bool,
) -> ExitCode:
    """Call a tool for each memory, once it is known which are meant; ends as the first that ended badly.

    Raises CommandFailed for a refusal: what stands before it in the list is done, and printed.
    """
    if seen and len(identifiers) > 1:
        raise click.UsageError("--seen is of one memory: give one ID.")
    if not (seen or yes or common.can_ask()):
        raise click.UsageError(_NOBODY_SAW)
    codes = [ExitCode.DONE]
    with open_client(namespace) as gateway:
        for meant in [gateway.resolve_id(text) for text in identifiers]:
            digest = seen or _show_memory(gateway, meant, yes=yes)
            if not (seen or yes or click.confirm("Is it this one?", err=True)):
                click.echo(f"{meant}\tleft as it is")
                continue
            reply = gateway.write(tool, {"memory_id": meant, **common.arguments({**given, "seen": digest})})
            codes.append(output.print_reply(reply, partial(_draw, meant), as_json=as_json))
    return next((code for code in codes if code != ExitCode.DONE), ExitCode.DONE)


def _show_memory(gateway: ToolClient, meant: str, *, yes: bool) -> str | None:
    """Show a memory on standard error and return its digest, None where there is none; raises CommandFailed.

    `yes`: also one that cannot be shown whole is meant.
    """
    whole = {"include_untrusted": True, "detail": "full", "max_chars": common.WHOLE_REPLY}
    reply = gateway.call("get_memory", {"memory_id": meant, **whole})
    output.refuse(reply)
    if reply["status"] == "not_found":
        return None  # the call for the verdict says so
    output.draw_memory(reply, err=True)
    digest: str | None = reply["memory"].get("digest")
    if digest is None and not yes:
        raise CommandFailed(f"{meant} is too long to be shown whole. With --yes it is meant all the same.")
    return digest


def _draw(meant: str, reply: output.ReplyBody) -> None:
    click.echo(f"{meant}\t{reply.get('new_verification') or reply['status']}")
    output.draw_still_hidden(reply)
    if reply["status"] == "refused":
        built_on = ", ".join(reply["built_on"]) or "in private"
        click.echo(f"Others have built on it: {built_on}.", err=True)


@click.command("supersede")
@click.argument("old")
@click.argument("new")
@common.options(common.NAMESPACE, common.JSON)
def supersede(old: str, new: str, namespace: str | None, *, as_json: bool) -> ExitCode:
    """Replace the memory OLD by NEW: searches and lists hide the old one.

    Both are ids, or their beginnings of 8 characters or more, if no others have those. engramq restore OLD undoes it.
    """
    with open_client(namespace) as gateway:
        asked = {"old_memory_id": gateway.resolve_id(old), "new_memory_id": gateway.resolve_id(new)}
        return output.print_reply(gateway.write("supersede_memory", asked), output.draw_status, as_json=as_json)


@click.command("update")
@click.argument("identifier", metavar="ID")
@click.option("--tag", "add_tags", metavar="TAG", multiple=True, help="Add this one; repeat it for several.")
@click.option("--remove-tag", "remove_tags", metavar="TAG", multiple=True, help="Take this one away.")
@click.option("--project", metavar="NAME", help="Move it there.")
@described
@click.option("--position", metavar="N", type=integer(0, limits.POSITION_MAX), help="Its place in the thread.")
@click.option("--clear", metavar="NAME", multiple=True, help="Empty a field, such as speaker, or a key of metadata.")
@common.options(_SEEN, common.NAMESPACE, common.JSON)
def update(identifier: str, namespace: str | None, *, as_json: bool, **fields: Any) -> ExitCode:
    """Correct what is said about a memory: its date, speaker, tags and the like.

    Fields that you leave out stay as they are. Its content is never edited: store it anew, then engramq supersede OLD
    NEW. --metadata is merged into what is there. ID may be its beginning, of 8 characters or more, if no other has
    that.
    """
    changes = common.arguments(fields)
    if not changes.keys() - {"seen"}:
        raise click.UsageError("Say what is to be changed: engramq update --help lists what can be.")
    with open_client(namespace) as gateway:
        asked = {"memory_id": gateway.resolve_id(identifier), **gateway.resolve_cited_ids(changes)}
        return output.print_reply(gateway.write("update_memory", asked), output.draw_status, as_json=as_json)


@click.command("contradictions")
@common.limit_option(1000, 20, "How many pairs at most, the newest.")
@common.options(common.PROJECT, common.NAMESPACE, common.JSON)
def contradictions(limit: int, project: str | None, namespace: str | None, *, as_json: bool) -> None:
    """List pairs of memories that say otherwise about the same thing, newest first.

    In each pair the later memory stands first, with its words, then the earlier. engramq supersede OLD NEW decides.
    """
    with open_client(namespace) as gateway:
        pairs = islice(_pairs(gateway, project), limit)
        output.print_list(pairs, _pair_of, as_json=as_json, none="No memories were seen to disagree.")


def _pairs(gateway: ToolClient, project: str | None) -> Iterator[Mapping[str, str]]:
    """Yield the pairs as the gateway finds them: a page may take seconds."""
    cursor: str | None = None
    while True:
        asked = {"project": project, "cursor": cursor, "max_chars": common.WHOLE_REPLY}
        reply = gateway.call("list_contradictions", common.arguments(asked))
        output.refuse(reply)
        yield from reply["pairs"]
        cursor = reply["next_cursor"]
        if cursor is None:
            return


def _pair_of(pair: Mapping[str, str]) -> str:
    sides = ((pair["later"], pair["here"]), (pair["earlier"], pair["said"]))
    return "\n".join(
        f"{indent}{side}  {output.printable(text)}" for indent, (side, text) in zip(("", "  "), sides, strict=True)
    )
