"""Carries graph commands out with the real handlers, and looks at what is stored."""

from dataclasses import dataclass
from typing import Any

from engramq.schemas.codec import reply_body
from engramq.schemas.commands import Command, Reply
from engramq.schemas.envelope import Principal
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, Scope
from engramq.workers.db.database import Store
from engramq.workers.queue.contract import Assignment, Completion
from engramq.workers.runner import CommandRunner
from tests.assignments import assignment
from tests.conftest import Database
from tests.running import runner

ADA = Principal(name="ada", scopes=ALL_SCOPES)
BOB = Principal(name="bob", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY))
CAY = Principal(name="cay", scopes=(Scope.READ, Scope.WRITE))


@dataclass(frozen=True)
class Harness:
    """Both halves of the graph: writes of the edges kind and reads of the recall kind."""

    store: Store
    database: Database
    runner: CommandRunner

    @classmethod
    def at(cls, store: Store, database: Database) -> "Harness":
        return cls(store, database, runner(store))

    async def carry_out(self, given: Assignment) -> Completion:
        return await self.runner.run(given)

    async def do(
        self, command: Command, *, by: Principal = ADA, namespace: str = DEFAULT_NAMESPACE, **envelope: Any
    ) -> Reply:
        given = assignment(command, namespace=namespace, principal=by, **envelope)
        return (await self.carry_out(given)).reply

    async def body(self, command: Command, **how: Any) -> dict[str, Any]:
        """Return the reply as a client reads it, without the command id."""
        body = reply_body(await self.do(command, **how))
        body.pop("command_id", None)
        return body

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Run a query as the owner of the database."""
        return self.database.rows(query, *values)

    def row(self, query: str, *values: Any) -> dict[str, Any]:
        (found,) = self.rows(query, *values)
        return found

    def everything(self) -> list[dict[str, Any]]:
        """Return every row of the graph, to prove that nothing changed."""
        return [
            row
            for table in ("nodes", "edges", "proposals", "approvals", "memory_usage", "namespaces")
            for row in self.rows(f"select to_jsonb(t) as row from {table} t order by to_jsonb(t)::text")
        ]

    def audit(self, target: str) -> list[dict[str, Any]]:
        return self.rows("select * from audit_log where target_id = %s order by id", target)
