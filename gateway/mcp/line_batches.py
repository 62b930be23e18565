"""Batches that come in lines: their messages go to the SDK's server one by one, and their answers are gathered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.shared.dispatcher import as_request_id, coerce_request_id

from engramq.gateway.mcp.messages import Refusal, dump_batch, handshake_version, read_item, refuse_batch

Key = str | int


def id_key(request_id: Any) -> Key | None:
    """Return what two ids have in common that the SDK takes for one, as 7 and "7"; None for what is no id."""
    known = as_request_id(request_id)
    return None if known is None else coerce_request_id(known)


@dataclass(slots=True)
class _Batch:
    """A batch that is not answered yet."""

    awaited: set[Key] = field(default_factory=set)
    answers: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class LineBatches:
    """The batches of one conversation."""

    _version: str | None = None
    _open: dict[Key, _Batch] = field(default_factory=dict)

    def note_response(self, response: types.JSONRPCMessage) -> None:
        """Note the version that a handshake has settled."""
        self._version = handshake_version(response) or self._version

    def begin(self, items: Sequence[Any], busy: Iterable[Key]) -> tuple[list[types.JSONRPCMessage], bytes | None]:
        """Return the messages of a batch, and its answer if it is one already; `busy` are ids of other requests."""
        refused = refuse_batch(items, self._version)
        if refused is not None:
            return [], refused.dump()
        batch = _Batch()
        messages: list[types.JSONRPCMessage] = []
        for message in map(read_item, items):
            if isinstance(message, types.JSONRPCRequest):
                key = coerce_request_id(message.id)
                if key in batch.awaited or key in busy:
                    error = "Another request of this id is under way."
                    batch.answers.append(Refusal(types.INVALID_REQUEST, error, message.id).dump())
                    continue
                batch.awaited.add(key)
                self._open[key] = batch
            if isinstance(message, Refusal):
                batch.answers.append(message.dump())
            else:
                messages.append(message)
        return messages, _answer(batch)

    def settle(self, request_id: Any, answer: bytes | None) -> bytes | None:
        """Return what is to be written now that a request is answered; with None, that it never will be.

        An answer that belongs to no batch is written as it is, and one that does once it is the last of its batch.
        """
        key = id_key(request_id)
        batch = None if key is None else self._open.pop(key, None)
        if key is None or batch is None:
            return answer
        batch.awaited.discard(key)
        if answer is not None:
            batch.answers.append(answer)
        return _answer(batch)


def _answer(batch: _Batch) -> bytes | None:
    """Return a batch's answer once nothing is awaited any more, None if it has none."""
    return dump_batch(batch.answers) if batch.answers and not batch.awaited else None
