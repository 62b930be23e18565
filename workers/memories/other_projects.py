"""Say what other projects have where nothing was found in one, and which may be meant by a name that none has."""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec

from engramq.schemas.vocabulary import EVERY_PROJECT, Partition
from engramq.workers.db.lookups import Ask
from engramq.workers.db.memory_rows import visible_now
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup, Transaction

PROJECT_BESIDE: Final = sql("project_beside")

SHOWN: Final = 3  # projects in one sentence
NEAR: Final = 0.6  # likeness of a name that may be meant: shop-api for shopp
ALIKE: Final = 0.75  # of one that is probably meant, where the other one is new
NAMES: Final = 1_000  # that are compared, in some 20 ms
NAME_CHARS: Final = 60  # of a name that are shown
LISTED: Final = 1_000  # memories of a list that are counted, the newest

_PLAIN: Final = re.compile(r"[\w./-]+")


class Beside(msgspec.Struct, frozen=True):
    """Whether anything is in a project, and whether trusted memories are in others."""

    is_known: bool
    has_others: bool


read_beside: Final = msgspec.json.Decoder(Beside).decode


async def beside(ask: Ask, project: str | None) -> Beside:
    """Look whether there is a project, and whether there are others."""
    (answer,) = await ask([Lookup(PROJECT_BESIDE, {"project": project})])
    assert answer is not None
    return read_beside(answer)


async def describe_unknown_project(tx: Transaction, project: str, *, is_named: bool) -> str:
    """Return the sentence that a project is not there, with the nearest that are; one that nobody named is new."""
    near = nearest(project, await _names(tx), NEAR)
    said = (
        f"There is no project {_show_name(project)}" if is_named else f"Nothing is in project {_show_name(project)} yet"
    )
    return f"{said}; nearest: {_list_names(near)}." if near else f"{said}."


async def describe_new_project(tx: Transaction, project: str) -> str:
    """Return the sentence that a project is new, where it is called nearly as another one, else ""."""
    near = nearest(project, await _names(tx), ALIKE)
    return f"Project {_show_name(project)} is new; nearest: {_list_names(near)}." if near else ""


async def describe_elsewhere(tx: Transaction, listed: Mapping[str, Any], project: str | None, *, is_named: bool) -> str:
    """Return what a list that is empty in a project has in others, "" if nothing; `is_named`: by the call itself."""
    if project == EVERY_PROJECT or Partition.TRUSTED not in listed["partitions"]:
        return ""
    there = await beside(tx.look_up, project)
    said = "" if there.is_known or project is None else await describe_unknown_project(tx, project, is_named=is_named)
    if not there.has_others and not listed["project_only"]:
        return said
    everywhere = {**listed, "partitions": [Partition.TRUSTED], "project": EVERY_PROJECT, "project_only": False}
    rows = await tx.rows("listed_elsewhere", **everywhere, most=LISTED)
    counts = {row["project"]: row["memories"] for row in rows}
    return " ".join(filter(None, (said, places(counts, ("memory", "memories")))))


def places(counts: Mapping[str | None, int], noun: tuple[str, str]) -> str:
    """Return the sentence that so many are in these projects, as ordered; None is in none."""
    shown = [
        f"{count} {noun[count != 1]} in {'no project' if project is None else f'project {_show_name(project)}'}"
        for project, count in list(counts.items())[:SHOWN]
    ]
    return f'{", ".join(shown)}; project="*" shows them.' if shown else ""


def nearest(name: str, names: Iterable[str], least: float) -> list[str]:
    """Return the names most like one, whatever their case, the likest first; `least`: how like, 0 to 1."""
    matcher, likeness = SequenceMatcher(autojunk=False), dict[str, float]()
    matcher.set_seq2(name.casefold())
    for other in names:
        matcher.set_seq1(other.casefold())
        if other != name and matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            likeness[other] = matcher.ratio()
    alike = sorted((other for other, ratio in likeness.items() if ratio >= least), key=lambda other: -likeness[other])
    return alike[:SHOWN]


async def _names(tx: Transaction) -> list[str]:
    rows = await tx.rows("projects_seen", **visible_now((Partition.TRUSTED,)), most=NAMES)
    return [row["project"] for row in rows]


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(map(_show_name, names))


def _show_name(name: str) -> str:
    """Return a name on one line, without what is invisible in it; in quotation marks where it may read as a text."""
    line = "".join(filter(str.isprintable, " ".join(name.split())))
    cut = line if len(line) <= NAME_CHARS else f"{line[: NAME_CHARS - 1]}\u2026"
    return cut if _PLAIN.fullmatch(line) else json.dumps(cut, ensure_ascii=False)
