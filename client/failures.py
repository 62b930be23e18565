"""What a call raises when it has no reply to return."""

from collections.abc import Mapping
from typing import Any


class EngramqFailure(Exception):
    """A call without a reply; one of the four below."""


class Refused(EngramqFailure):
    """The server refused the call, and nothing has happened.

    `code` is a word of the contract ("" when the server refused ahead of the operation, as for a bad token), `message`
    says what is wrong, `recovery` what to do, `field` which parameter is meant; `http_status` and `body` are as they
    came.
    """

    def __init__(self, http_status: int, body: Mapping[str, Any]) -> None:
        self.http_status = http_status
        self.body = body
        self.code: str = body.get("code", "")
        self.message: str = body.get("error", f"The server answered {http_status}.")
        self.recovery: str = body.get("recovery", "")
        self.field: str | None = body.get("field")
        super().__init__(" ".join(filter(None, (self.message, self.recovery))))


class NotReached(EngramqFailure):
    """No usable answer came within the time of a call, however often it was repeated.

    A write may have been carried out: made again with `idempotency_key`, it is not carried out twice.
    """

    def __init__(self, why: str, idempotency_key: str | None) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(why)


class StillPending(EngramqFailure):
    """A write is queued and not yet carried out; `get_command(command_id)` tells what becomes of it."""

    def __init__(self, command_id: str) -> None:
        self.command_id = command_id
        super().__init__(f"Command {command_id} is still under way.")


class Erased(EngramqFailure):
    """A write was repeated whose memory has been erased since; `memory_id` was its id."""

    def __init__(self, memory_id: str) -> None:
        self.memory_id = memory_id
        super().__init__(f"Memory {memory_id} was erased after it had been written.")
