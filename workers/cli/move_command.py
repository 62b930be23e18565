"""`engramq move`: one namespace to another database, by the names that ENGRAMQ_DATABASES gives them."""

import sys
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.phrases import count_of, memories
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import PRIMARY_DATABASE
from engramq.workers.cli.databases import directory
from engramq.workers.cli.running import require_database, run
from engramq.workers.db.errors import Meaning, meaning
from engramq.workers.db.owner import DiskFull, Owner, OwnerError
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.db.readiness import NotReady
from engramq.workers.tenants.copying import Unlike
from engramq.workers.tenants.moving import STANDING, CannotMove, Move, Moved, Place, Step

CONTENTS: Final = sql("tenant_contents")

WORDS: Final = {
    Step.BEGUN: "begun",
    Step.COPYING: "copying, while everybody works on",
    Step.COPIED: "copied; writes are held next",
    Step.HELD: "writes are held",
    Step.LEFT: "nothing is served from the old database any more",
    Step.COMPARED: "compared",
    Step.ARRIVED: "served from the new database",
    Step.EMPTIED: "removed from the old database",
    Step.DONE: "done",
}


def name_of(settings: Settings, given: str) -> str:
    """Return the name of a database that is given by name or by URL; raises CommandFailed."""
    known = directory(settings)
    if given in known:
        return given
    for name, url in known.items():
        if url == given:
            return name
    raise CommandFailed(
        f"--to names none of the databases {', '.join(known)}. Name it in ENGRAMQ_DATABASES first, as NAME=URL, for "
        "this command and for all workers: they serve the namespace from there.",
        ExitCode.MISUSED,
    )


def move_tenant(settings: Settings, namespace: str, *, to: str, dry_run: bool, abort: bool, as_json: bool) -> None:
    """Move a namespace, take a move back, or (`dry_run`) only check. Raises CommandFailed."""
    require_database(settings)
    wanted = name_of(settings, to)
    try:
        told = run(_moved(settings, namespace, wanted, dry_run=dry_run, abort=abort, quiet=as_json))
    except CannotMove as problem:
        raise CommandFailed(str(problem)) from None
    except NotReady as problem:
        raise CommandFailed(f"{problem} Nothing was moved.") from None
    except Unlike as problem:
        raise CommandFailed(
            f"The namespace stays where it was: {problem}. Run the same command again, or with --abort, which removes "
            "what was copied."
        ) from None
    except DiskFull:
        raise CommandFailed(
            f"There is too little room in {wanted!r}. Make some and run the same command again, or with --abort."
        ) from None
    except OwnerError as problem:
        raise CommandFailed(
            f"A database {'refused' if meaning(problem) is Meaning.DEFECT else 'was lost'} ({type(problem).__name__}). "
            "Run the same command again: it goes on where it was. With --abort it is taken back.",
            ExitCode.MIDWAY,
        ) from None
    print(msgspec.json.encode({"namespace": namespace, **told}).decode() if as_json else told["told"])


async def _moved(
    settings: Settings, namespace: str, wanted: str, *, dry_run: bool, abort: bool, quiet: bool
) -> dict[str, object]:
    def tell(step: Step) -> None:
        if not quiet:
            print(f"{namespace}: {WORDS[step]}", file=sys.stderr)

    async with AsyncExitStack() as owned:
        here, found = await _found(settings, namespace, owned)
        if here.name == wanted:
            if abort or found["standing"] is not None:
                raise CannotMove(f"Namespace {namespace!r} is not being moved to {wanted!r}.")
            return {"to": wanted, "status": "there", "told": f"Namespace {namespace!r} is in {wanted!r} already."}
        there = Place(name=wanted, side=await owned.enter_async_context(Owner.opened(directory(settings)[wanted])))
        move = Move(namespace=namespace, here=here, there=there, actor=settings.principal, tell=tell)
        way = {"from": here.name, "to": wanted}
        if abort:
            await move.abort()
            return {**way, "status": "aborted", "told": f"Taken back: namespace {namespace!r} stays in {here.name!r}."}
        if dry_run:
            row = await move.check()
            held = await here.side.row(CONTENTS, tenant=row["tenant"])
            assert held is not None
            number = sum(held["by_state"].values())
            told = f"Namespace {namespace!r} can be moved from {here.name!r} to {wanted!r}: {memories(number)}, "
            told += f"{count_of(held['bytes'], 'byte')} of contents. Nothing was moved."
            return {**way, "status": "can_be_moved", "memories": number, "bytes": held["bytes"], "told": told}
        return {**way, "status": "moved", **_told(namespace, here.name, wanted, await move.run())}


async def _found(settings: Settings, namespace: str, owned: AsyncExitStack) -> tuple[Place, Row]:
    """Return the database that a namespace is in, or is being moved out of, with its row there."""
    known, name, seen = directory(settings), PRIMARY_DATABASE, set[str]()
    while name not in seen:
        seen.add(name)
        if name not in known:
            raise CannotMove(f"Namespace {namespace!r} is in database {name!r}, which ENGRAMQ_DATABASES does not name.")
        place = Place(name=name, side=await owned.enter_async_context(Owner.opened(known[name])))
        row = await place.side.row(STANDING, namespace=namespace)
        if row is None:
            raise CannotMove(f"There is no namespace {namespace!r}; engramq tenant list shows all.")
        if row["standing"] != "left" or row["move"] is not None:
            return place, row
        name = row["place"]
    raise CannotMove(f"The databases name each other as the place of {namespace!r}: {', '.join(sorted(seen))}.")


def _told(namespace: str, here: str, there: str, moved: Moved) -> dict[str, object]:
    told = (
        f"Moved namespace {namespace!r} from {here!r} to {there!r}: {count_of(moved.rows, 'row')} in "
        f"{count_of(moved.passes, 'pass', 'passes')}, writes held for {moved.held_s:.2f} s."
    )
    return {"rows": moved.rows, "passes": moved.passes, "held_s": round(moved.held_s, 3), "told": told}
