"""`engramq duplicates`: list near-duplicates of a namespace, then supersede them by those that stay."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import click
import msgspec
from msgspec import UNSET, UnsetType

from engramq.deploy.cli import options as common
from engramq.deploy.cli.duplicate_sets import Digests, Sets, packed, transactions
from engramq.deploy.cli.options import limit_option
from engramq.deploy.cli.output import printable
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import PROGRESS_S, Asker, asking, run
from engramq.schemas import limits
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of, memories
from engramq.schemas.commands import (
    DuplicateGroup,
    DuplicatesFound,
    DuplicatesGrouped,
    DuplicatesMerged,
    FindDuplicates,
    GroupDuplicates,
    MergeDuplicates,
)
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Settings
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
    help="Least cosine of two memories that are alike. Default: as .95 with the bundled model.",
)
@click.option(
    "--partition", type=click.Choice([str(word) for word in Partition]), help="Default: both, each by itself."
)
@limit_option(SHOWN_MAX, SHOWN, "Groups listed.", least=0)
@click.option("--merge", is_flag=True, help="Supersede what is alike by the one that stays.")
@click.option("--yes", is_flag=True, help="With --merge: do it. Without it everything is only listed.")
@common.JSON
def command(
    namespace: str | None,
    similarity: float | None,
    partition: str | None,
    limit: int,
    *,
    merge: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """List memories that say the same, and with --merge --yes keep one of each group.

    Of each group the one stays that is vouched for best, else the newest; the others are superseded by it, and
    restore_memory brings one back. Memories of different partitions, projects, threads, speakers, times or tags are no
    duplicates, nor are short texts, nor texts that differ in a word, a number or their order. What has an external_id
    stays.
    """
    if yes and not merge:
        raise click.UsageError("--yes goes with --merge.")
    with servers_for("duplicates") as chosen:
        asked = Asked(
            partition=UNSET if partition is None else Partition(partition),
            similarity=UNSET if similarity is None else similarity,
            shown=limit,
            merge=merge,
            yes=yes,
        )
        list_duplicates(asked, chosen, namespace=namespace or chosen.namespace, as_json=as_json)


WAYS: Final[tuple[Literal["text", "vector"], ...]] = ("text", "vector")
INDENT: Final = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say. `shown`: how many groups are listed; `merge`: say what --merge would do; `yes`: do it."""

    partition: Partition | UnsetType = UNSET
    similarity: float | UnsetType = UNSET
    shown: int
    merge: bool = False
    yes: bool = False


@dataclass(slots=True)
class Found:
    """What was found, and when merged, what came of it. `previews` are of the groups that are shown."""

    looked_at: int = 0
    similarity: float = 0.0
    groups: list[DuplicateGroup] = field(default_factory=list)
    previews: dict[str, str | None] = field(default_factory=dict)
    merged: int | None = None
    left: list[str] = field(default_factory=list)

    @property
    def duplicates(self) -> int:
        """How many memories others stand for."""
        return sum(len(one.goes) for one in self.groups)


def list_duplicates(asked: Asked, settings: Settings, *, namespace: str, as_json: bool) -> None:
    """List near-duplicates of a namespace, with `merge` and `yes` supersede them, and print what was done.

    Raises CommandFailed.
    """
    tell = _Teller(silent=as_json)
    try:
        found = run(partial(_duplicates, settings, namespace, asked, tell))
    except EngramqError as refusal:
        text = f"{refusal.fault.error} {refusal.fault.recovery}"
        raise CommandFailed(f"{text} The same command again does what is left.", ExitCode.MIDWAY) from None
    if as_json:
        print(msgspec.json.encode(_as_json(found, namespace, asked.shown)).decode())
        return
    for line in _listed(found, asked.shown):
        print(line.rstrip())
    if not found.groups:
        print(f"No duplicates in namespace {namespace!r}, by a similarity of {found.similarity:.3f}.", file=sys.stderr)
        return
    counted = f"{memories(found.duplicates)} in {count_of(len(found.groups), 'group')} of namespace {namespace!r}"
    if found.merged is None:
        can = "is superseded: --merge --yes does it" if not asked.merge else "is merged: --yes does it"
        say = f"{counted} can be superseded, by a similarity of {found.similarity:.3f} or more."
        print(f"{say} Nothing {can}.", file=sys.stderr)
        return
    print(f"Superseded {memories(found.merged)} of namespace {namespace!r}. restore_memory brings one back. By ids:")
    print(f"engramq audit --namespace {shlex.quote(namespace)} --action supersede")
    if found.left:
        print(f"Left, since they have changed meanwhile: {memories(len(found.left))}.")


class _Teller:
    """Says now and then how far it is."""

    def __init__(self, *, silent: bool) -> None:
        self._silent, self._told_at = silent, time.monotonic()

    def __call__(self, text: Callable[[], str]) -> None:
        if not self._silent and time.monotonic() > self._told_at + PROGRESS_S:
            self._told_at = time.monotonic()
            print(text(), file=sys.stderr)


async def _duplicates(settings: Settings, namespace: str, asked: Asked, tell: _Teller) -> Found:
    async with asking(settings, namespace) as asker:
        found, sets = Found(), Sets()
        await _find(asker, asked, found, sets, tell)
        async for several in _grouped(asker, sets, found.similarity):
            found.groups += several
            tell(lambda: f"{count_of(len(found.groups), 'group')} of {memories(len(sets))} that are alike")
        found.previews = await _previews(asker, found, asked.shown)
        if asked.merge and asked.yes:
            await _merge(asker, found, tell)
        return found


async def _find(asker: Asker, asked: Asked, found: Found, sets: Sets, tell: _Teller) -> None:
    """Look the namespace through by texts, then by vectors."""
    similarity, texts = asked.similarity, Digests()
    for way in WAYS:
        after: str | None = ""
        found.looked_at = 0
        while after is not None:
            command = FindDuplicates(by=way, after=after, partition=asked.partition, similarity=similarity)
            reply = await asker.read(command, DuplicatesFound)
            for ids in reply.alike:
                sets.join(ids)
            texts.add(reply.digests or {})
            found.looked_at += reply.looked_at
            after, similarity = reply.next, reply.similarity
            tell(lambda: f"{memories(found.looked_at)} looked at, {len(sets)} are alike")
        for several in texts.equal():
            sets.join(several)
    assert similarity is not UNSET
    found.similarity = similarity


async def _grouped(asker: Asker, sets: Sets, similarity: float) -> AsyncIterator[list[DuplicateGroup]]:
    """Yield who would stand for whom. Of a set too large for one step what is left of its pieces is compared again."""
    wanted: Sequence[Sequence[str]] = sets.all()
    while wanted:
        gone = set[str]()
        for some in packed(wanted, limits.DUPLICATES_COMPARED):
            command = GroupDuplicates(alike=tuple(map(tuple, some)), similarity=similarity)
            groups = (await asker.read(command, DuplicatesGrouped)).groups
            gone.update(one for group in groups for one in group.goes)
            yield groups
        large = [one for one in wanted if len(one) > limits.DUPLICATES_COMPARED]
        rest = [[one for one in several if one not in gone] for several in large]
        wanted = [some for some, before in zip(rest, large, strict=True) if 1 < len(some) < len(before)]


async def _previews(asker: Asker, found: Found, shown: int) -> dict[str, str | None]:
    """Return the beginnings of the memories in the groups that are shown."""
    named: dict[str, str | None] = {}
    sets = [(one.stays, *one.goes)[: limits.DUPLICATES_COMPARED] for one in found.groups[:shown]]
    for some in packed(sets, limits.DUPLICATES_COMPARED):
        command = GroupDuplicates(alike=tuple(map(tuple, some)), similarity=found.similarity, preview=True)
        reply = await asker.read(command, DuplicatesGrouped)
        named |= {one.id: one.preview for one in reply.previews or ()}
    return named


async def _merge(asker: Asker, found: Found, tell: _Teller) -> None:
    found.merged = 0
    for some in transactions(found.groups, limits.DUPLICATES_MERGED):
        command = MergeDuplicates(groups=tuple(some), similarity=found.similarity)
        reply = await asker.run(command, DuplicatesMerged)
        found.merged += reply.merged
        found.left += reply.left
        tell(lambda: f"{found.merged} of {memories(found.duplicates)} superseded")


def _listed(found: Found, shown: int) -> list[str]:
    lines = []
    for group in found.groups[:shown]:
        lines.append(f"{group.stays}  stays  {printable(found.previews.get(group.stays))}")
        lines += [
            f"{INDENT}{one}  {near:.3f}  {printable(found.previews.get(one))}"
            for one, near in zip(group.goes, group.similarities, strict=True)
        ]
    if len(found.groups) > shown:
        lines.append(f"... and {count_of(len(found.groups) - shown, 'group')} more: --limit shows them")
    return lines


def _as_json(found: Found, namespace: str, shown: int) -> dict[str, Any]:
    def named(memory_id: str) -> dict[str, Any]:
        return {"id": memory_id, "preview": found.previews.get(memory_id)}

    groups = [
        {
            "stays": named(one.stays),
            "goes": [
                {**named(goes), "similarity": near} for goes, near in zip(one.goes, one.similarities, strict=True)
            ],
        }
        for one in found.groups[:shown]
    ]
    return {
        "status": "success",
        "namespace": namespace,
        "similarity": found.similarity,
        "looked_at": found.looked_at,
        "group_count": len(found.groups),
        "duplicate_count": found.duplicates,
        "groups": groups,
        "merged": found.merged,
        "left": found.left,
    }
