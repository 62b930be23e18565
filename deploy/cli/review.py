"""The commands that judge and correct what is kept: verify, promote, reject, supersede and update."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import door, memory_id, write
from engramq.deploy.cli.memories import described
from engramq.deploy.cli.output import Reply, draw_still_hidden, tell
from engramq.schemas import limits
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import integer
from engramq.schemas.vocabulary import Verification

_IDS = click.argument("identifiers", metavar="ID...", nargs=-1, required=True)


@click.command("verify")
@_IDS
@click.option("--approved", is_flag=True, help="More than verified: somebody answers for it.")
@common.options(common.REASON, common.NAMESPACE, common.JSON)
def verify(
    identifiers: tuple[str, ...], reason: str | None, namespace: str | None, *, approved: bool, as_json: bool
) -> ExitCode:
    """Say that memories were checked against their source.

    Untrusted ones stay so: engramq promote makes them trusted. An ID may be its beginning, of 8 characters or more, if
    no other has that.
    """
    given = {"verification": Verification.APPROVED if approved else Verification.VERIFIED, "reason": reason}
    return _each(identifiers, "verify_memory", given, namespace, as_json=as_json)


@click.command("reject")
@_IDS
@common.options(common.REASON, common.NAMESPACE, common.JSON)
def reject(identifiers: tuple[str, ...], reason: str | None, namespace: str | None, *, as_json: bool) -> ExitCode:
    """Say that memories are false or misleading, which hides them.

    engramq verify takes that back. An ID may be its beginning, of 8 characters or more, if no other has that.
    """
    given = {"verification": Verification.REJECTED, "reason": reason}
    return _each(identifiers, "verify_memory", given, namespace, as_json=as_json)


@click.command("promote")
@_IDS
@common.options(common.NAMESPACE, common.JSON)
def promote(identifiers: tuple[str, ...], namespace: str | None, *, as_json: bool) -> ExitCode:
    """Make verified memories trusted, so that searches show them.

    An ID may be its beginning, of 8 characters or more, if no other has that.
    """
    return _each(identifiers, "memory_promote_to_trusted", {}, namespace, as_json=as_json)


def _each(
    identifiers: tuple[str, ...], tool: str, given: Mapping[str, Any], namespace: str | None, *, as_json: bool
) -> ExitCode:
    """Call a tool for each memory, once it is known which are meant; ends as the first that ended badly.

    Raises CommandFailed for a refusal: what stands before it in the list is done, and printed.
    """
    codes = [ExitCode.DONE]
    with door(namespace) as gateway:
        for meant in [memory_id(gateway, text) for text in identifiers]:
            reply = write(gateway, tool, {"memory_id": meant, **common.arguments(given)})
            codes.append(tell(reply, partial(_draw, meant), as_json=as_json))
    return next((code for code in codes if code != ExitCode.DONE), ExitCode.DONE)


def _draw(meant: str, reply: Reply) -> None:
    click.echo(f"{meant}\t{reply.get('new_verification') or reply['status']}")
    draw_still_hidden(reply)


@click.command("supersede")
@click.argument("old")
@click.argument("new")
@common.options(common.NAMESPACE, common.JSON)
def supersede(old: str, new: str, namespace: str | None, *, as_json: bool) -> ExitCode:
    """Replace the memory OLD by NEW: searches and lists hide the old one.

    Both are ids, or their beginnings of 8 characters or more, if no others have those. engramq restore OLD undoes it.
    """
    with door(namespace) as gateway:
        asked = {"old_memory_id": memory_id(gateway, old), "new_memory_id": memory_id(gateway, new)}
        return tell(write(gateway, "supersede_memory", asked), _draw_status, as_json=as_json)


@click.command("update")
@click.argument("identifier", metavar="ID")
@click.option("--tag", "add_tags", metavar="TAG", multiple=True, help="Add this one; repeat it for several.")
@click.option("--remove-tag", "remove_tags", metavar="TAG", multiple=True, help="Take this one away.")
@click.option("--project", metavar="NAME", help="Move it there.")
@described
@click.option("--position", metavar="N", type=integer(0, limits.POSITION_MAX), help="Its place in the thread.")
@click.option("--clear", metavar="NAME", multiple=True, help="Empty a field, such as speaker, or a key of metadata.")
@common.options(common.NAMESPACE, common.JSON)
def update(identifier: str, namespace: str | None, *, as_json: bool, **fields: Any) -> ExitCode:
    """Correct what is said about a memory: its date, speaker, tags and the like.

    Its content is never edited: store it anew, then engramq supersede OLD NEW. --metadata is merged into what is there.
    ID may be its beginning, of 8 characters or more, if no other has that.
    """
    changes = common.arguments(fields)
    if not changes:
        raise click.UsageError("Say what is to be changed: engramq update --help lists what can be.")
    with door(namespace) as gateway:
        asked = {"memory_id": memory_id(gateway, identifier), **changes}
        return tell(write(gateway, "update_memory", asked), _draw_status, as_json=as_json)


def _draw_status(reply: Reply) -> None:
    click.echo(reply["status"])
