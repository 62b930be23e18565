"""A project that gets another name, or is merged into another: whatever carries its name carries the new one."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from engramq.schemas.commands import CreateToken, ForgetMemory, Forgotten, ProjectRenamed, RenameProject, TokenCreated
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import ALL_SCOPES, DEFAULT_NAMESPACE, Scope, Visibility
from engramq.workers.db.transaction import Transaction
from engramq.workers.memories import projects
from engramq.workers.queue.contract import ResultUnknown
from tests.assignments import assignment, repeated
from tests.refusals import refused
from tests.workers.conftest import World

pytestmark = pytest.mark.promise("OV-15")


async def keep(world: World, project: str, *contents: str, **envelope: Any) -> list[str]:
    return [(await world.keep(content, project=project, **envelope)).stored.id for content in contents]


def of(world: World, project: str, namespace: str = DEFAULT_NAMESPACE) -> set[str]:
    rows = world.rows(
        "select content from memories join namespaces n using (tenant) where n.namespace = %s and project = %s",
        namespace,
        project,
    )
    return {row["content"] for row in rows}


async def test_memories_and_tokens_of_a_project_get_its_new_name(world: World) -> None:
    ids = await keep(world, "rover-fix", "six wheels", "a camera")
    (researched,) = await keep(world, "rover-fix", "a blog says so", source_type="research")
    await keep(world, "other", "of another")
    await keep(world, "rover-fix", "of another tenant", namespace="elsewhere")
    soon = datetime.now(UTC) + timedelta(days=1)
    made = CreateToken(
        principal="ada", token_sha256="0" * 64, scopes=(Scope.READ,), expires_at=soon, project="rover-fix"
    )
    await world.ask(TokenCreated, made)
    asked = assignment(RenameProject(old_name="rover-fix", new_name="acme/rover"))
    reply = (await world.complete(asked)).reply
    assert isinstance(reply, ProjectRenamed)
    assert (reply.project, reply.memory_count, reply.token_count) == ("acme/rover", 3, 1)
    assert of(world, "acme/rover") == {"six wheels", "a camera", "a blog says so"}
    assert (of(world, "rover-fix"), of(world, "other")) == (set(), {"of another"})
    assert of(world, "rover-fix", "elsewhere") == {"of another tenant"}
    assert [row["project"] for row in world.rows("select project from tokens")] == ["acme/rover"]
    entries = world.rows(
        "select action, target_id::text as id, old, new from audit_log where command_id = %s order by id",
        asked.envelope.id,
    )
    *updates, summary = entries
    assert {entry["id"] for entry in updates} == {*ids, researched}
    assert {(entry["action"], str(entry["new"])) for entry in updates} == {("update", "{'changed': ['project']}")}
    assert {entry["old"]["project"] for entry in updates} == {"rover-fix"}
    names = [sha256(name.encode()).hexdigest() for name in ("rover-fix", "acme/rover")]
    assert (summary["action"], summary["id"]) == ("rename_project", None)
    assert [summary["old"]["project_sha256"], summary["new"]["project_sha256"]] == names
    assert (summary["new"]["memories"], summary["new"]["tokens"]) == (3, 1)
    assert (await world.complete(repeated(asked, attempt=2))).reply == reply


async def test_what_others_keep_private_moves_with_its_project(world: World) -> None:
    ada = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
    await keep(world, "shop", "Ada would rather have the old shop", principal=ada, visibility=Visibility.PRIVATE)
    await keep(world, "shop", "The till is new")
    reply = await world.ask(ProjectRenamed, RenameProject(old_name="shop", new_name="store"))
    assert (reply.memory_count, of(world, "shop"), len(of(world, "store"))) == (1, set(), 2)
    await keep(world, "shop", "a counter")
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await world.ask(ProjectRenamed, RenameProject(old_name="shop", new_name="store"))
    assert faults[0].recovery == "engramq projects merge puts these beside them."


@pytest.mark.promise("PV-1", "PV-5")
async def test_a_rename_says_nothing_of_projects_that_others_keep_private(world: World) -> None:
    ada = Principal(name="ada", scopes=(Scope.READ, Scope.WRITE))
    await keep(world, "leave", "Ada looks for another job", principal=ada, visibility=Visibility.PRIVATE)
    for guessed in ("leave", "nobodys"):
        (own,) = await keep(world, "tent", f"a tent for {guessed}")
        taken = await world.ask(ProjectRenamed, RenameProject(old_name="tent", new_name=guessed))
        assert taken.memory_count == 1
        await world.ask(Forgotten, ForgetMemory(memory_id=own, erase=True))
        asked = assignment(RenameProject(old_name=guessed, new_name=f"{guessed} too"))
        reply = (await world.complete(asked)).reply
        assert isinstance(reply, ProjectRenamed)
        (summary,) = world.rows(
            "select new from audit_log where command_id = %s and action = 'rename_project'", asked.envelope.id
        )
        assert (reply.memory_count, summary["new"]["memories"]) == (0, 0)
    assert of(world, "leave too") == {"Ada looks for another job"}


async def test_a_project_is_put_into_one_that_has_memories_only_by_a_merge(world: World) -> None:
    await keep(world, "rover-fix", "six wheels")
    await keep(world, "rover", "a camera")
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await world.ask(ProjectRenamed, RenameProject(old_name="rover-fix", new_name="rover"))
    assert faults[0].field == "new_name"
    assert of(world, "rover") == {"a camera"}
    reply = await world.ask(ProjectRenamed, RenameProject(old_name="rover-fix", new_name="rover", merge=True))
    assert (reply.memory_count, of(world, "rover")) == (1, {"a camera", "six wheels"})
    again = await world.ask(ProjectRenamed, RenameProject(old_name="rover-fix", new_name="rover", merge=True))
    assert again.memory_count == 0


async def test_a_rename_that_broke_off_goes_on_with_what_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "RENAMED_AT_ONCE", 2)
    await keep(world, "mars", *(f"memory {number}" for number in range(5)))
    rename, calls = projects.rename_few, 0

    async def refusing(tx: Transaction, **given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise refuse(FaultCode.UNAVAILABLE, "The database's disk is full.")
        await rename(tx, **given)

    monkeypatch.setattr(projects, "rename_few", refusing)
    asked = assignment(RenameProject(old_name="mars", new_name="venus"))
    with pytest.raises(ResultUnknown):
        await world.complete(asked)
    assert len(of(world, "venus")) == 2
    reply = (await world.complete(repeated(asked, attempt=2))).reply
    assert isinstance(reply, ProjectRenamed)
    assert (reply.memory_count, len(of(world, "venus")), of(world, "mars")) == (5, 5, set())


@pytest.mark.parametrize(
    ("old_name", "new_name", "field"),
    [("*", "mars", "old_name"), ("mars", "*", "new_name"), ("mars", "mars", "new_name")],
)
async def test_all_projects_and_the_same_name_are_refused(
    world: World, old_name: str, new_name: str, field: str
) -> None:
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await world.ask(ProjectRenamed, RenameProject(old_name=old_name, new_name=new_name))
    assert faults[0].field == field


@pytest.mark.parametrize(
    "caller",
    [
        Principal(name="writer", scopes=(Scope.READ, Scope.WRITE, Scope.VERIFY)),
        Principal(name="stranger", scopes=ALL_SCOPES, untrusted=True),
    ],
    ids=["no admin", "untrusted"],
)
async def test_who_is_no_administrator_renames_nothing(world: World, caller: Principal) -> None:
    await keep(world, "mars", "six wheels")
    with refused(FaultCode.FORBIDDEN):
        await world.ask(ProjectRenamed, RenameProject(old_name="mars", new_name="venus"), principal=caller)
    assert of(world, "mars") == {"six wheels"}
