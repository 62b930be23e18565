"""Anthropic's memory tool (`memory_20250818`) over memories, for the tool runner of their SDK.

Needs `engramq[anthropic]`. See docs/providers.md.
"""

from collections.abc import Callable
from typing import TypeVar

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from engramq.client.call import Conversation, EngramqFailure
from engramq.client.file_commands import MemoryFiles
from engramq.client.files import FileProblem
from engramq.client.memory import AsyncMemory, Memory
from engramq.schemas.commands import WriteReply

T = TypeVar("T")


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `Anthropic().beta.messages.tool_runner`: its files are memories of engramq.

    `memory` is a client that the caller closes, else one of ENGRAMQ_URL and ENGRAMQ_TOKEN. `project`: of all files;
    else a file is in the project that its first folder names. `include_untrusted`: show what is untrusted too.
    `on_receipt` gets the reply of each write. A command that fails is a ToolError, whose words the model reads.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        project: str | None = None,
        include_untrusted: bool = False,
        on_receipt: Callable[[WriteReply], None] | None = None,
    ) -> None:
        super().__init__()
        self._memory = memory or Memory()
        self._files = MemoryFiles(project=project, include_untrusted=include_untrusted, on_receipt=on_receipt)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file or a folder."""
        return self._answer(self._files.view(command.path, command.view_range))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file."""
        return self._answer(self._files.create(command.path, command.file_text))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text in a file."""
        return self._answer(self._files.str_replace(command.path, command.old_str, command.new_str))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file."""
        return self._answer(self._files.insert(command.path, command.insert_line, command.insert_text))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Archive a file or a folder."""
        return self._answer(self._files.delete(command.path))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a folder."""
        return self._answer(self._files.rename(command.old_path, command.new_path))

    def clear_all_memory(self) -> str:
        """Archive all files."""
        return self._answer(self._files.clear())

    def _answer(self, conversation: Conversation[T]) -> T:
        try:
            return self._memory.converse(conversation)
        except (FileProblem, EngramqFailure) as problem:
            raise _tool_error(problem) from problem


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic`, as `MemoryTool` is; `memory` is an `AsyncMemory`."""

    def __init__(
        self,
        memory: AsyncMemory | None = None,
        *,
        project: str | None = None,
        include_untrusted: bool = False,
        on_receipt: Callable[[WriteReply], None] | None = None,
    ) -> None:
        super().__init__()
        self._memory = memory or AsyncMemory()
        self._files = MemoryFiles(project=project, include_untrusted=include_untrusted, on_receipt=on_receipt)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file or a folder."""
        return await self._answer(self._files.view(command.path, command.view_range))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file."""
        return await self._answer(self._files.create(command.path, command.file_text))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text in a file."""
        return await self._answer(self._files.str_replace(command.path, command.old_str, command.new_str))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file."""
        return await self._answer(self._files.insert(command.path, command.insert_line, command.insert_text))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Archive a file or a folder."""
        return await self._answer(self._files.delete(command.path))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a folder."""
        return await self._answer(self._files.rename(command.old_path, command.new_path))

    async def clear_all_memory(self) -> str:
        """Archive all files."""
        return await self._answer(self._files.clear())

    async def _answer(self, conversation: Conversation[T]) -> T:
        try:
            return await self._memory.converse(conversation)
        except (FileProblem, EngramqFailure) as problem:
            raise _tool_error(problem) from problem


def _tool_error(problem: Exception) -> ToolError:
    return ToolError(str(problem) if isinstance(problem, FileProblem) else f"Error: {problem}")
