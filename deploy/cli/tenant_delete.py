"""`engramq tenant delete`: tell what a namespace holds, then erase it for good."""

import shlex
import sys
from collections.abc import Callable
from functools import partial

import msgspec

from engramq.gateway.operator import Asker, asking, run
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.commands import DeleteTenant, DescribeTenant, TenantDeleted, TenantDescribed
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError
from engramq.schemas.phrases import count_of, memories
from engramq.schemas.settings import Settings


def delete_tenant(deletion: DeleteTenant, settings: Settings, *, namespace: str, yes: bool, as_json: bool) -> None:
    """Tell what a namespace holds, with `yes` delete it, and tell how much that was; raises CommandFailed."""
    try:
        found, done = run(partial(_delete, settings, namespace, deletion, yes=yes, tell=_teller(as_json)))
    except EngramqError as refusal:
        raise CommandFailed(f"{refusal.fault.error} {refusal.fault.recovery}", ExitCode.MIDWAY) from None
    if found.status == "not_found":
        raise CommandFailed(f"There is no namespace {namespace!r}. {found.hint}")
    if as_json:
        print(msgspec.json.encode({"namespace": namespace, **reply_body(done or found)}).decode())
    elif done is not None:
        print(f"Deleted {_counted(done)} of namespace {namespace!r}. Who did it, and when:")
        print(f"engramq audit --namespace {shlex.quote(namespace)} --command {done.command_id}")
    else:
        print(f"{_counted(found)}; {count_of(found.content_bytes, 'byte')} of contents.")
        print(f"This is what namespace {namespace!r} holds. Nothing is deleted: --yes does it.", file=sys.stderr)


def _counted(held: TenantDescribed | TenantDeleted) -> str:
    graph = ((held.node_count, "node"), (held.edge_count, "edge"), (held.link_count, "link"))
    counted = [count_of(number, word) for number, word in (*graph, (held.token_count, "token"))]
    return ", ".join((memories(held.memory_count), *counted))


def _teller(as_json: bool) -> Callable[[str], None]:
    return lambda text: None if as_json else print(text, file=sys.stderr)


async def _delete(
    settings: Settings, namespace: str, deletion: DeleteTenant, *, yes: bool, tell: Callable[[str], None]
) -> tuple[TenantDescribed, TenantDeleted | None]:
    """Return what was found, and what was done if it was to be.

    A namespace that holds nothing any more is deleted too: what was broken off may have left stored replies.
    """
    async with asking(settings, namespace) as asker:
        found = await asker.run(DescribeTenant(), TenantDescribed)
        if not yes or found.status == "not_found":
            return found, None
        return found, await asker.run(deletion, TenantDeleted, progress=partial(_tell_progress, asker, found, tell))


async def _tell_progress(asker: Asker, found: TenantDescribed, tell: Callable[[str], None]) -> None:
    answer = await asker.ask(DescribeTenant())
    if isinstance(answer, Answer) and isinstance(answer.reply, TenantDescribed):
        gone = max(0, found.memory_count - answer.reply.memory_count)
        tell(f"{gone} of {memories(found.memory_count)} deleted")
