"""Anthropic's memory tool (`memory_20250818`) over memories, for the tool runner of their SDK.

Needs `engramq[anthropic]`. See docs/providers.md.
"""

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from engramq.client.call import CallSequence, EngramqFailure
from engramq.client.file_commands import MemoryFiles
from engramq.client.files import FileProblem
from engramq.client.memory import AsyncMemory, Memory
from engramq.schemas.commands import WriteReply


class FileOptions(TypedDict, total=False):
    """The options of `MemoryFiles`, which says what each is for."""

    project: str | None
    include_untrusted: bool
    on_receipt: Callable[[WriteReply], None] | None


class _Commands:
    """The commands of both tools: each is a sequence of calls, which the client of the tool makes."""

    _files: MemoryFiles
    _answer: Callable[[CallSequence[str]], Any]

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> Any:
        """Show a file or a folder."""
        return self._answer(self._files.view(command.path, command.view_range))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> Any:
        """Make a file."""
        return self._answer(self._files.create(command.path, command.file_text))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> Any:
        """Replace a text in a file."""
        return self._answer(self._files.str_replace(command.path, command.old_str, command.new_str))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> Any:
        """Insert lines into a file."""
        return self._answer(self._files.insert(command.path, command.insert_line, command.insert_text))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> Any:
        """Archive a file or a folder."""
        return self._answer(self._files.delete(command.path))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> Any:
        """Move a file or a folder."""
        return self._answer(self._files.rename(command.old_path, command.new_path))

    def clear_all_memory(self) -> Any:
        """Archive all files."""
        return self._answer(self._files.clear())


class MemoryTool(_Commands, BetaAbstractMemoryTool):
    """The memory tool for `Anthropic().beta.messages.tool_runner`: its files are memories of engramq.

    `memory` is a client that the caller closes, else one of ENGRAMQ_URL and ENGRAMQ_TOKEN. `options`: see MemoryFiles.
    A command that fails is a ToolError, whose words the model reads.
    """

    def __init__(self, memory: Memory | None = None, **options: Unpack[FileOptions]) -> None:
        super().__init__()
        self._memory = memory or Memory()
        self._files = MemoryFiles(**options)

    def _answer(self, calls: CallSequence[str]) -> str:
        try:
            return self._memory.converse(calls)
        except (FileProblem, EngramqFailure) as problem:
            raise _tool_error(problem) from problem


class AsyncMemoryTool(_Commands, BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic`, as `MemoryTool` is; `memory` is an `AsyncMemory`."""

    def __init__(self, memory: AsyncMemory | None = None, **options: Unpack[FileOptions]) -> None:
        super().__init__()
        self._memory = memory or AsyncMemory()
        self._files = MemoryFiles(**options)

    async def _answer(self, calls: CallSequence[str]) -> str:
        try:
            return await self._memory.converse(calls)
        except (FileProblem, EngramqFailure) as problem:
            raise _tool_error(problem) from problem


def _tool_error(problem: Exception) -> ToolError:
    return ToolError(str(problem) if isinstance(problem, FileProblem) else f"Error: {problem}")
