"""Carry out operators' commands: by the gateway at ENGRAMQ_URL, else by the queue of this machine's servers.

A gateway elsewhere takes them from a principal with the scope `admin`, in the namespace of the token. They are no tools
for agents: nothing lists them.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from engramq.deploy.cli.output import ReplyBody
from engramq.deploy.cli.tool_client import URL, ToolClient, open_client
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import QueueCalls, open_queue
from engramq.schemas.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """The namespace that a command is about, and the client that reaches it.

    `name` is what sentences call it, `option` names it to another command, `fields` are what JSON says of it.
    """

    name: str
    option: str
    fields: Mapping[str, str]
    client: ToolClient


@contextmanager
def operating(command: str, namespace: str | None) -> Iterator[Target]:
    """Within the block commands of operators are carried out, in a namespace or else in that of the environment.

    Raises CommandFailed, DeployError, SettingsError.
    """
    if url := os.environ.get(URL):
        with open_client(namespace) as gateway:
            yield Target(f"the namespace of the token at {url}", "", {}, gateway)
        return
    with servers_for(command) as settings:
        name = namespace or settings.namespace
        with queue_client(settings, name) as queue:
            yield Target(f"namespace {name!r}", f" --namespace {shlex.quote(name)}", {"namespace": name}, queue)


@contextmanager
def queue_client(settings: Settings, namespace: str, **how: Any) -> Iterator["QueueClient"]:
    """Within the block commands go by the queue, in any namespace; `how`: see `open_queue`. Raises CommandFailed."""
    with open_queue(settings, namespace, **how) as calls:
        yield QueueClient(calls)


@dataclass(frozen=True, slots=True)
class QueueClient(ToolClient):
    """Asks without a gateway: the machine of the servers has no token, and needs none."""

    calls: QueueCalls
    read_s: ClassVar[float] = 0.0  # a read waits for its turn in the queue

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        """Return the reply to the command that a tool stands for."""
        return self.calls.call(tool, arguments)

    def within(self, namespace: str) -> "QueueClient":
        """Return the same for another namespace."""
        return QueueClient(replace(self.calls, namespace=namespace))
