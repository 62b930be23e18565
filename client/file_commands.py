"""The commands of Anthropic's memory tool as calls of a client: files are memories, and every edit is a new one.

One file is one memory. Version 3 of /memories/notes.md has the external_id "/memories/notes.md#3", which is used once:
of two writers that read the same version the second is refused, reads anew, and edits what the first has written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from engramq.client import calls, files
from engramq.client.call import CallSequence, Refused
from engramq.client.files import ROOT, File, FileProblem, clean_path
from engramq.client.pages import all_recent
from engramq.schemas.commands import WriteReply
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import MemoryState, Partition, Visibility

TRIES: Final = 8  # of an edit that others are ahead of
# Why a version is not hidden behind a later one: others moved or archived it, or who wrote the later one is untrusted.
_STAYS: Final = frozenset({"already_superseded", "memory_not_active", "untrusted_supersedes"})


class _SeenByOthers(Exception):
    """The readers of a file changed after it was read: the memories stored meanwhile are erased again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFiles:
    """Memories as files. Each method is a conversation for `converse` of a client; its result is for the model.

    `project` is that of all files; without it a file is in the project that its first folder names. Untrusted memories
    are files only where `include_untrusted` says so. `on_receipt` gets the reply of every write, with the command_id
    under which the audit knows it.
    """

    project: str | None = None
    include_untrusted: bool = False
    on_receipt: Callable[[WriteReply], None] | None = None

    def view(self, given: str, view_range: Sequence[int] | None = None) -> CallSequence[str]:
        """Show a file, or what is in a folder."""
        path = clean_path(given)
        versions = [] if path == ROOT else (yield from self._versions(path))
        if versions:
            return files.number_lines((yield from self._whole(versions[-1])), view_range)
        below = yield from self._below(path)
        if not below and path != ROOT:
            raise FileProblem(f"The path {path} does not exist. Please provide a valid path.")
        return files.list_folder(path, below)

    def create(self, given: str, text: str) -> CallSequence[str]:
        """Make a new file."""
        path = clean_path(given)
        if (yield from self._is_there(path)):
            raise FileProblem(f"Error: File {path} already exists")
        yield from self._need_folders(path)
        stored = yield from self._stored(path, text, 0)
        if stored is None:
            raise FileProblem(f"Error: File {path} already exists")
        return f"File created successfully at: {path}{self._remarks(stored, text)}"

    def str_replace(self, given: str, old: str, new: str) -> CallSequence[str]:
        """Replace the one occurrence of a text."""
        path = clean_path(given)
        missing = f"Error: The path {path} does not exist. Please provide a valid path."
        before, text, remarks = yield from self._edit(
            path, lambda text: files.replace_once(path, text, old, new), missing
        )
        said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return f"{said}\n{files.show_change(text, before)}{remarks}"

    def insert(self, given: str, line: int, addition: str) -> CallSequence[str]:
        """Insert lines after a line."""
        path = clean_path(given)
        missing = f"Error: The path {path} does not exist"
        _, _, remarks = yield from self._edit(path, lambda text: files.insert_lines(text, line, addition), missing)
        return f"The file {path} has been edited.{remarks}"

    def delete(self, given: str) -> CallSequence[str]:
        """Archive a file, or all that is in a folder: restore_memory brings each back."""
        path = clean_path(given)
        if path == ROOT:
            raise FileProblem(f"Error: Cannot delete the {ROOT} directory itself")
        if not (yield from self._archive(path)):
            raise FileProblem(f"Error: The path {path} does not exist")
        return f"Successfully deleted {path}"

    def clear(self) -> CallSequence[str]:
        """Archive all files."""
        yield from self._archive(ROOT)
        return "All memory cleared"

    def rename(self, given_old: str, given_new: str) -> CallSequence[str]:
        """Move a file, or a folder with all that is in it."""
        old, new = clean_path(given_old), clean_path(given_new)
        if old == ROOT:
            raise FileProblem(f"Error: Cannot rename the {ROOT} directory itself")
        if f"{new}/".startswith(f"{old}/") and new != old:
            raise FileProblem(f"Error: The destination {new} is inside {old}")
        moved = [old] if (yield from self._versions(old)) else [file.path for file in (yield from self._below(old))]
        if not moved:
            raise FileProblem(f"Error: The path {old} does not exist")
        if (yield from self._is_there(new)):
            raise FileProblem(f"Error: The destination {new} already exists")
        targets = [clean_path(new + path.removeprefix(old)) for path in moved]
        yield from self._need_folders(new)
        for path, target in zip(moved, targets, strict=True):
            yield from self._move(path, target)
        return f"Successfully renamed {old} to {new}"

    def _edit(self, path: str, edit: Callable[[str], str], missing: str) -> CallSequence[tuple[str, str, str]]:
        """Write the next version of a file; return its text before and after, and what there is to say besides."""
        for _ in range(TRIES):
            versions = yield from self._versions(path)
            if not versions:
                raise FileProblem(missing)
            before = (yield from self._whole(versions[-1])).text
            text = edit(before)
            stored = yield from self._stored(path, text, versions[-1].version, versions[-1].visibility.value)
            if stored is None:
                continue
            try:
                yield from self._all_replaced(versions, stored)
            except _SeenByOthers:
                continue
            return before, text, self._remarks(stored, text)
        raise FileProblem(f"Error: {path} is being edited by others. Please view it and try again.")

    def _move(self, path: str, target: str) -> CallSequence[None]:
        for _ in range(TRIES):
            versions = yield from self._versions(path)
            if not versions:
                raise FileProblem(f"Error: The path {path} does not exist")
            text = (yield from self._whole(versions[-1])).text
            stored = yield from self._stored(target, text, 0, versions[-1].visibility.value)
            if stored is None:
                raise FileProblem(f"Error: The destination {target} already exists")
            try:
                if (yield from self._all_replaced(versions, stored)):
                    return
            except _SeenByOthers:
                continue
            self._receipt((yield calls.forget(stored.id, reason=f"{path} was edited while it was moved to {target}")))
        raise FileProblem(f"Error: {path} is being edited by others. Please view it and try again.")

    def _archive(self, path: str) -> CallSequence[int]:
        """Archive what is at a path and below it, and what somebody writes there meanwhile; return of how many."""
        ended = dict[str, Visibility]()
        for _ in range(TRIES):
            versions = [] if path == ROOT else (yield from self._versions(path))
            found = versions or (yield from self._below(path))
            # What everybody has beside one's own private file of that name stays.
            going = [file for file in found if ended.get(file.path, file.visibility) is file.visibility]
            if not going:
                return len(ended)
            for file in going:
                reason = f"the memory tool deleted {file.path}"
                self._receipt((yield calls.forget(file.memory_id, reason=reason)))
                ended[file.path] = file.visibility
        raise FileProblem(f"Error: {path} is being edited by others. Please view it and try again.")

    def _stored(
        self, path: str, text: str, version: int, visibility: Literal["private", "shared"] | None = None
    ) -> CallSequence[Memory | None]:
        """Store what follows a version, for who saw that; return its memory, or None when others were ahead of it.

        Version 0 is of a file that is not there; it may have been, and its numbers are not given again.
        """
        project = self.project or files.project_of(path)
        for _ in range(TRIES):
            version += 1
            said = files.describe_file(path, version, text)
            external_id = f"{path}#{version}" if self.project is None else f"{self.project}:{path}#{version}"
            try:
                stored = yield calls.store(**said, external_id=external_id, project=project, visibility=visibility)
            except Refused as refused:
                if refused.code != "external_id_taken":
                    raise
            else:
                self._receipt(stored)
                memory: Memory = stored.stored
                return memory
            if (now := (yield from self._versions(path))) and now[-1].version >= version:
                return None
            history = yield from self._versions(path, include_superseded=True, states=list(MemoryState))
            version = max([version, *(old.version for old in history)])
        return None

    def _all_replaced(self, versions: Sequence[File], by: Memory) -> CallSequence[bool]:
        """Hide versions behind a later one, the newest last; False when that one cannot be. Raises _SeenByOthers."""
        replaced = False
        for file in versions:
            try:
                self._receipt((yield calls.supersede(file.memory_id, by.id)))
                replaced = True
            except Refused as refused:
                if refused.code == "forbidden":  # one of the two is private
                    reason = f"the readers of {file.path} changed meanwhile"
                    self._receipt((yield calls.forget(by.id, erase=True, reason=reason)))
                    raise _SeenByOthers from None
                if refused.code not in _STAYS:
                    raise
                replaced = False
        return replaced

    def _versions(self, path: str, **options: Any) -> CallSequence[list[File]]:
        """Return the versions of a file that count, the newest last.

        All pages are read, or so many shared ones could be planted that none shows the private one. A shared file that
        is called as a folder with private files is none: it would hide them.
        """
        memories = yield from all_recent(tags=[path], **self._among, **options)
        versions = files.select_counting([file for file in files.order_files(memories) if file.path == path])
        if versions and not options and versions[-1].visibility is not Visibility.PRIVATE:
            below = yield from self._below(path)
            if any(file.visibility is Visibility.PRIVATE for file in below):
                return []
        return versions

    def _below(self, path: str) -> CallSequence[list[File]]:
        memories = yield from all_recent(tags=[f"{path}/"], **self._among)
        return [file for file in files.list_newest(memories) if file.path.startswith(f"{path}/")]

    def _is_there(self, path: str) -> CallSequence[bool]:
        if path == ROOT or (yield from self._versions(path)):
            return True
        page = yield calls.recent(tags=[f"{path}/"], limit=1, **self._among)
        return bool(page.memories)

    def _need_folders(self, path: str) -> CallSequence[None]:
        for folder in files.folders_of(path)[1:]:
            if (yield from self._versions(folder)):
                raise FileProblem(f"Error: {folder} is a file, not a directory")

    def _whole(self, file: File) -> CallSequence[File]:
        """Return a file with all of its text, since an edit would lose what a list leaves out."""
        if file.is_whole:
            return file
        reply = yield calls.get(file.memory_id, include_untrusted=self.include_untrusted)
        whole = None if reply.memory is None else files.file_of(reply.memory)
        if whole is None or not whole.is_whole:
            raise FileProblem(f"Error: {file.path} cannot be read as a whole")
        return whole

    @property
    def _among(self) -> dict[str, Any]:
        partitions = list(Partition) if self.include_untrusted else [Partition.TRUSTED]
        return {"partitions": partitions, "project": self.project or "*", "project_only": self.project is not None}

    def _remarks(self, stored: Memory, text: str) -> str:
        """Return what of a write is otherwise than the model expects, "" for nothing."""
        remarks = ""
        if stored.partition is Partition.UNTRUSTED and not self.include_untrusted:
            remarks += "\nIt is kept apart as untrusted: no file shows it before somebody promotes it."
        if text.strip() and stored.content != text:
            remarks += "\nWords in it that looked like secrets were masked."
        return remarks

    def _receipt(self, reply: WriteReply) -> None:
        if self.on_receipt is not None:
            self.on_receipt(reply)
