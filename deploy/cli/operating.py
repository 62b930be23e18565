"""Send operators' commands: as calls of the gateway at ENGRAMQ_URL, else by the queue of this machine's servers.

A gateway elsewhere takes them from who has the scope `admin`, in the namespace of the token. They are no tools of an
agent's: nothing lists them.
"""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from engramq.deploy.cli.door import URL, Door, door
from engramq.deploy.cli.options import WHOLE_REPLY
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import Asker, Outcome, open_asker, outcome_of, pause_s, run
from engramq.schemas.commands import OPERATOR_TOOLS, Command, Reply
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import FaultCode

R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Place:
    """The namespace that a command is about.

    `name` is what sentences call it, `option` names it to another command, `fields` are what JSON says of it.
    """

    name: str
    option: str
    fields: Mapping[str, str]
    opened: Callable[[], AbstractAsyncContextManager[Asker]]

    def reply_to(self, command: Command, kind: type[R]) -> R:
        """Return the reply to one command, in an event loop of its own; raises CommandFailed, EngramqError."""

        async def asked() -> R:
            async with self.opened() as asker:
                return await asker.run(command, kind)

        return run(asked)


@contextmanager
def operating(command: str, namespace: str | None) -> Iterator[Place]:
    """Within the block commands of operators are carried out, in a namespace or else in that of the environment.

    Raises CommandFailed, DeployError, SettingsError.
    """
    if url := os.environ.get(URL):
        with door(namespace) as gateway:
            yield Place(f"the namespace of the token at {url}", "", {}, lambda: nullcontext(RemoteAsker(gateway)))
        return
    with servers_for(command) as settings:
        name = namespace or settings.namespace
        option = f" --namespace {shlex.quote(name)}"
        yield Place(f"namespace {name!r}", option, {"namespace": name}, partial(open_asker, settings, name))


@dataclass(frozen=True, slots=True)
class RemoteAsker(Asker):
    """Asks a gateway elsewhere."""

    gateway: Door

    async def ask(self, command: Command, timeout_s: float | None = None, key: str | None = None) -> Outcome:
        """Ask once; a write that got no answer is asked again with its key, which does it once.

        A gateway waits as long as it likes: a read that it had no time for is asked again for `timeout_s`.
        """
        give_up = time.monotonic() + (timeout_s or 0.0)
        tool = next(tool for tool in OPERATOR_TOOLS if tool.parameters is type(command))
        arguments: dict[str, Any] = msgspec.to_builtins(command)
        del arguments["type"]
        arguments |= {} if key is None else {"idempotency_key": key}
        arguments |= {"max_chars": WHOLE_REPLY} if tool.bounded else {}
        while True:
            # A user who ends the command does not wait for the answer.
            body = await anyio.to_thread.run_sync(self.gateway.call, tool.name, arguments, abandon_on_cancel=True)
            outcome = outcome_of(tool, body)
            fault = outcome.fault if isinstance(outcome, Answer) else None
            if command.write or fault is None or fault.code is not FaultCode.UNAVAILABLE:
                return outcome
            if time.monotonic() + pause_s(fault) > give_up:
                return outcome
            await anyio.sleep(pause_s(fault))
