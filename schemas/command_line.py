"""Share exit codes and pieces of sentences among commands. Standard library only: the relay loads it."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """The exit status of the `engramq` command."""

    DONE = 0
    FAILED = 1  # a server or a home is not fit, a row was rejected, a token is not there
    MISUSED = 2  # called or set wrongly: nothing was started
    MIDWAY = 3  # an import, a purge or a merge could not go on: the same command again does the rest
    NOT_RUNNING = 3  # what `status` says then
    DEGRADED = 4  # what `status` says when reads are answered and something has to be mended; FAILED when they are not
    INTERRUPTED = 130  # by Ctrl-C: 128 and the number of SIGINT


class CommandFailed(Exception):
    """A command cannot go on: the message says what is wrong and how to mend it."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


NO_BATCH: Final = "JSON-RPC batches are not supported: send every message by itself."
# The recovery from a message that is too large.
SMALLER: Final = "Send it in smaller parts; for a file of many memories there is `engramq import`."


def count_of(number: int, singular: str, plural: str = "") -> str:
    """Return so many of a thing; without a plural of its own the word gets an s."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def memories(number: int) -> str:
    """Return so many memories."""
    return count_of(number, "memory", "memories")


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
