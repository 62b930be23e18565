"""`engramq duplicates`: list near-duplicates of a namespace, then supersede them by those that stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal
from uuid import UUID

import click
import msgspec
from msgspec import UNSET

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import Target, operating
from engramq.deploy.cli.options import limit_option
from engramq.deploy.cli.output import json_line, printable, refusal_text
from engramq.deploy.cli.tool_client import PROGRESS_S, ToolClient
from engramq.schemas import commands, limits
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of, memories
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import Partition

SHOWN: Final = 20  # groups
SHOWN_MAX: Final = 10_000
LEAST: Final = 0.5  # what is less similar is about something else


def _cosine(text: str) -> float:
    value = float(text)
    if not LEAST <= value <= 1.0:  # nor is NaN
        raise ValueError(f"{text} is not from {LEAST} to 1")
    return value


@click.command("duplicates")
@common.NAMESPACE
@click.option(
    "--similarity",
    metavar="X",
    type=_cosine,
    help="How alike two memories have to be, up to 1. Default: what .95 is with the bundled model.",
)
@click.option(
    "--partition", type=click.Choice([str(word) for word in Partition]), help="Default: both, each by itself."
)
@limit_option(SHOWN_MAX, SHOWN, "Groups listed.", least=0)
@click.option("--merge", is_flag=True, help="Supersede what is alike by the one that stays.")
@click.option(
    "--yes",
    is_flag=True,
    help="With --merge: do it, and do not ask. Without it and a terminal everything is only listed.",
)
@common.JSON
def command(
    namespace: str | None, similarity: float | None, partition: str | None, limit: int, *, merge: bool, yes: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """List memories that say the same, and with --merge --yes keep one of each group.

    In each group the memory that is vouched for best stays, else the newest; it supersedes the others, and engramq
    restore brings one back. Memories of different partitions, projects, threads, speakers, times or tags are no
    duplicates, nor are short texts, nor texts that differ in a word, a number or their order. A memory with an
    external_id stays.
    """
    if yes and not merge:
        raise click.UsageError("--yes goes with --merge.")
    with operating("duplicates", namespace) as place:
        progress = _ProgressLine(silent=as_json)
        listing = commands.FindDuplicates(
            by="text",
            partition=UNSET if partition is None else Partition(partition),
            similarity=UNSET if similarity is None else similarity,
        )
        try:
            result = _duplicates(place.client, listing, limit, merge and yes, progress)
            if merge and not yes and not as_json and result.groups and common.can_ask():
                _print(result, place, limit, merge=True)
                groups = count_of(len(result.groups), "group")
                click.confirm(f"Supersede {memories(result.count)} in {groups} of {place.name}?", abort=True, err=True)
                _merge(place.client, result, progress)
        except EngramqError as refusal:
            text = refusal_text(refusal.fault.error, refusal.fault.recovery)
            raise CommandFailed(f"{text} The same command again does what is left.", ExitCode.MIDWAY) from None
    if as_json:
        click.echo(_as_json(result, place, limit))
    else:
        _print(result, place, limit, merge=merge)


WAYS: Final[tuple[Literal["text", "vector"], ...]] = ("text", "vector")
INDENT: Final = "  "


@dataclass(slots=True)
class Duplicates:
    """The duplicates of a namespace, and what a merge did. `previews` are of the groups that are shown."""

    looked_at: int = 0
    similarity: float = 0.0
    groups: list[commands.DuplicateGroup] = field(default_factory=list)
    previews: dict[str, str | None] = field(default_factory=dict)
    merged: int | None = None
    left: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many memories others stand for."""
        return sum(len(group.goes) for group in self.groups)


class _ProgressLine:
    """Says now and then how far it is."""

    def __init__(self, *, silent: bool) -> None:
        self._silent, self._shown_at = silent, time.monotonic()

    def __call__(self, text: Callable[[], str]) -> None:
        if not self._silent and time.monotonic() > self._shown_at + PROGRESS_S:
            self._shown_at = time.monotonic()
            click.echo(text(), err=True)


def _duplicates(
    client: ToolClient, listing: commands.FindDuplicates, shown: int, merge: bool, progress: _ProgressLine
) -> Duplicates:
    result, sets = Duplicates(), Sets()
    _find(client, listing, result, sets, progress)
    for several in _group(client, sets, result.similarity):
        result.groups += several
        progress(lambda: f"{count_of(len(result.groups), 'group')} of {memories(len(sets))} that are alike")
    result.previews = _previews(client, result, shown)
    if merge:
        _merge(client, result, progress)
    return result


def _find(
    client: ToolClient, listing: commands.FindDuplicates, result: Duplicates, sets: Sets, progress: _ProgressLine
) -> None:
    """Look the namespace through by texts, then by vectors."""
    similarity, texts = listing.similarity, Digests()
    for way in WAYS:
        after: str | None = ""
        result.looked_at = 0
        while after is not None:
            command = msgspec.structs.replace(listing, by=way, after=after, similarity=similarity)
            reply = client.reply_to(command, commands.DuplicatesFound)
            for ids in reply.alike:
                sets.join(ids)
            texts.add(reply.digests or {})
            result.looked_at += reply.looked_at
            after, similarity = reply.next, reply.similarity
            progress(lambda: f"{memories(result.looked_at)} looked at, {len(sets)} are alike")
        for several in texts.equal():
            sets.join(several)
    assert similarity is not UNSET
    result.similarity = similarity


def _group(client: ToolClient, sets: Sets, similarity: float) -> Iterator[list[commands.DuplicateGroup]]:
    """Yield who would stand for whom. A set too large for one call goes in pieces, whose rest is compared again."""
    wanted: Sequence[Sequence[str]] = sets.all()
    while wanted:
        gone = set[str]()
        for some in pack_sets(wanted, limits.DUPLICATES_COMPARED):
            command = commands.GroupDuplicates(alike=tuple(map(tuple, some)), similarity=similarity)
            groups = (client.reply_to(command, commands.DuplicatesGrouped)).groups
            gone.update(identifier for group in groups for identifier in group.goes)
            yield groups
        large = [ids for ids in wanted if len(ids) > limits.DUPLICATES_COMPARED]
        rest = [[identifier for identifier in ids if identifier not in gone] for ids in large]
        wanted = [some for some, before in zip(rest, large, strict=True) if 1 < len(some) < len(before)]


def _previews(client: ToolClient, result: Duplicates, shown: int) -> dict[str, str | None]:
    """Return the beginnings of the memories in the groups that are shown."""
    named: dict[str, str | None] = {}
    sets = [(group.stays, *group.goes)[: limits.DUPLICATES_COMPARED] for group in result.groups[:shown]]
    for some in pack_sets(sets, limits.DUPLICATES_COMPARED):
        command = commands.GroupDuplicates(alike=tuple(map(tuple, some)), similarity=result.similarity, preview=True)
        reply = client.reply_to(command, commands.DuplicatesGrouped)
        named |= {preview.id: preview.preview for preview in reply.previews or ()}
    return named


def _merge(client: ToolClient, result: Duplicates, progress: _ProgressLine) -> None:
    result.merged = 0
    for some in transactions(result.groups, limits.DUPLICATES_MERGED):
        command = commands.MergeDuplicates(groups=tuple(some), similarity=result.similarity)
        reply = client.reply_to(command, commands.DuplicatesMerged)
        result.merged += reply.merged
        result.left += reply.left
        progress(lambda: f"{result.merged} of {memories(result.count)} superseded")


def _print(result: Duplicates, place: Target, shown: int, *, merge: bool) -> None:
    for group in result.groups[:shown]:
        click.echo(f"{group.stays}  stays  {printable(result.previews.get(group.stays))}".rstrip())
        for goes, near in zip(group.goes, group.similarities, strict=True):
            click.echo(f"{INDENT}{goes}  {near:.3f}  {printable(result.previews.get(goes))}".rstrip())
    if len(result.groups) > shown:
        click.echo(f"... and {count_of(len(result.groups) - shown, 'group')} more: --limit shows them")
    similarity = f"by a similarity of {result.similarity:.3f}"
    if not result.groups:
        click.echo(f"No duplicates in {place.name}, {similarity}.", err=True)
    elif result.merged is None:
        groups = f"{count_of(len(result.groups), 'group')} of {place.name}"
        how = "is merged: --yes does it" if merge else "is superseded: --merge --yes does it"
        click.echo(
            f"{memories(result.count)} in {groups} can be superseded, {similarity} or more. Nothing {how}.", err=True
        )
    else:
        click.echo(f"Superseded {memories(result.merged)} of {place.name}. engramq restore brings one back. By ids:")
        click.echo(f"engramq audit{place.option} --action supersede")
        if result.left:
            click.echo(f"Left, since they have changed meanwhile: {memories(len(result.left))}.")


def _as_json(result: Duplicates, place: Target, shown: int) -> str:
    def named(memory_id: str) -> dict[str, Any]:
        return {"id": memory_id, "preview": result.previews.get(memory_id)}

    groups = [
        {
            "stays": named(group.stays),
            "goes": [
                {**named(goes), "similarity": near} for goes, near in zip(group.goes, group.similarities, strict=True)
            ],
        }
        for group in result.groups[:shown]
    ]
    fields = {
        "status": "success",
        **place.fields,
        "similarity": result.similarity,
        "looked_at": result.looked_at,
        "group_count": len(result.groups),
        "duplicate_count": result.count,
        "groups": groups,
        "merged": result.merged,
        "left": result.left,
    }
    return json_line(fields)


ID_BYTES: Final = 16


class Digests:
    """Digests of many memories: 32 bytes and an object for each, about 75 bytes."""

    def __init__(self) -> None:
        self._known: list[bytes] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, digests: Mapping[str, bytes]) -> None:
        """Take digests by the ids of their memories."""
        self._known += [digest + UUID(memory_id).bytes for memory_id, digest in digests.items()]

    def equal(self) -> Iterator[list[str]]:
        """Yield the ids of each at least two memories with the same digest, and forget all of them."""
        known, self._known = self._known, []
        known.sort()
        for _, several in groupby(known, key=lambda entry: entry[:-ID_BYTES]):
            ids = [str(UUID(bytes=entry[-ID_BYTES:])) for entry in several]
            if len(ids) > 1:
                yield ids


class Sets:
    """Only what is alike to something is kept: about 200 bytes for each id."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._parents)

    def join(self, ids: Sequence[str]) -> None:
        """Put ids, and all that is alike to any of them, into one set."""
        first = self._root(ids[0])
        for identifier in ids[1:]:
            self._parents[self._root(identifier)] = first

    def all(self) -> list[list[str]]:
        """Return the sets, each in the order of its ids, in the order of their first ones: the oldest first."""
        sets: dict[str, list[str]] = {}
        for identifier in sorted(self._parents):
            sets.setdefault(self._root(identifier), []).append(identifier)
        return list(sets.values())

    def _root(self, identifier: str) -> str:
        parent = self._parents.setdefault(identifier, identifier)
        while parent != identifier:
            # The next look has half the way.
            self._parents[identifier] = above = self._parents[parent]
            identifier, parent = above, self._parents[above]
        return identifier


def pack_sets(sets: Sequence[Sequence[str]], most: int) -> Iterator[list[Sequence[str]]]:
    """Put sets of at least two ids together until they have so many ids; a larger set goes in pieces, alone."""
    together: list[Sequence[str]] = []
    count = 0
    for ids in sets:
        # A single id at the end of a set is left out.
        pieces = [ids[start : start + most] for start in range(0, len(ids), most)]
        for piece in (piece for piece in pieces if len(piece) > 1):
            if count + len(piece) > most:
                yield together
                together, count = [], 0
            together.append(piece)
            count += len(piece)
    if together:
        yield together


def transactions(groups: Sequence[commands.DuplicateGroup], most: int) -> Iterator[list[commands.DuplicateGroup]]:
    """Put groups together for transactions of at most so many that go; what stays in one goes in a later one only."""
    together: list[commands.DuplicateGroup] = []
    count, stays, goes = 0, set[str](), set[str]()
    for group in groups:
        for start in range(0, len(group.goes), most):
            piece = commands.DuplicateGroup(stays=group.stays, goes=group.goes[start : start + most])
            clash = piece.stays in goes or not stays.isdisjoint(piece.goes)
            if together and (clash or count + len(piece.goes) > most):
                yield together
                together, count, stays, goes = [], 0, set(), set()
            together.append(piece)
            count += len(piece.goes)
            stays.add(piece.stays)
            goes.update(piece.goes)
    if together:
        yield together
