"""References such as @stored in the place of memory ids: what they stand for in the caller's session."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.mcp.tools.tool import Items, Tool
from engramq.schemas.commands import Command
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.vocabulary import RECALLED_REFERENCE, STORED_REFERENCE


class Resolver(Protocol):
    """Knows what references stand for; raises EngramqError when that cannot be looked up."""

    async def resolve(self, ref: str, namespace: str, principal: str, session: str) -> str | None:
        """Return the id that a reference stands for, None when it stands for nothing; an id stays as it is."""


@dataclass(frozen=True, slots=True)
class References:
    """The references of one call: each is looked up once, so that it means one memory wherever the call names it."""

    resolver: Resolver
    caller: Caller
    session: str
    _known: dict[str, str | None] = field(default_factory=dict)

    async def resolved(self, tool: Tool, command: Command) -> Command:
        """Return the command with ids only; raises EngramqError naming the parameter that stands for nothing."""
        found = await self._ids(command, tool.ids)
        for name, items in tool.batches.items():
            found[name] = tuple([await self._item(items, item) for item in getattr(command, name)])
        return msgspec.structs.replace(command, **found) if found else command

    async def _item(self, items: Items, item: Any) -> Any:
        """Return an item of a batch with ids only; one that stands for nothing gets that as its fault."""
        if item.fault is not UNSET:
            return item
        try:
            found = await self._ids(item, items.ids)
        except NothingFound as refusal:
            return items.kept(fault=refusal.fault)
        return msgspec.structs.replace(item, **found)

    async def _ids(self, holder: msgspec.Struct, fields: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in fields:
            given = getattr(holder, name)
            if isinstance(given, str):
                found[name] = await self._id_of(given, name)
            elif given is not UNSET:
                found[name] = tuple([await self._id_of(one, name) for one in given])
        return found

    async def _id_of(self, given: str, name: str) -> str:
        if given not in self._known:
            caller = self.caller
            self._known[given] = await self.resolver.resolve(
                given, caller.namespace, caller.principal.name, self.session
            )
        found = self._known[given]
        if found is None:
            raise NothingFound(
                invalid(
                    name,
                    f"{name}: nothing in session {self.session!a} answers to {given[:60]!a}.",
                    f"Give an id, {STORED_REFERENCE} after a store, or {RECALLED_REFERENCE}[N] after a search "
                    "in the same session, N from 0.",
                ).fault
            )
        return found


class NothingFound(EngramqError):
    """A reference stands for nothing."""
