"""How every `engramq` command ends. Imported by the stdio relay: standard library only."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell is told."""

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
