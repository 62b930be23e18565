"""The handlers of worker kinds: every command has one, in the kind that its Struct names."""

from engramq.schemas.commands import COMMANDS
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import HANDLERS


def test_every_command_is_carried_out_by_one_handler_of_the_kind_that_it_names() -> None:
    found = {(kind, handler.command) for kind, handlers in HANDLERS.items() for handler in handlers}
    assert found == {(command.mailbox, command) for command in COMMANDS}
    assert sum(len(handlers) for handlers in HANDLERS.values()) == len(COMMANDS)
    assert set(HANDLERS) == set(WorkerKind)
