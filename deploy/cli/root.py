"""`engramq` itself: the list of all commands, and what becomes of their errors.

Each command is a module of this package, loaded when it is called: together they import gateway and workers, which
takes a second, and the list of commands or a wrong name should not wait for it.
"""

import errno
import gc
import importlib
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NamedTuple, TextIO

import click

from engramq.deploy.cli.output import refusal_text
from engramq.deploy.local.home import DeployError
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import SettingsError

_NO_SPACE: Final = ("cannot be written", "Make room, then run it again.")
_READ_ONLY: Final = ("cannot be written", "Mount it for writing again; dmesg says why it is read-only.")
_BROKEN: Final = ("cannot be read or written", "See what the system says of the disk (dmesg), and restore a backup.")
_TOO_FEW: Final = ("cannot be opened", "Let it open more files: `ulimit -n 4096`.")
# Errors of a disk, or of the limits of a process, that any command may meet: what failed, and the recovery.
_OF_THE_MACHINE: Final[Mapping[int | None, tuple[str, str]]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _NO_SPACE),
    errno.EROFS: _READ_ONLY,
    **dict.fromkeys((errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, getattr(errno, "EUCLEAN", None)), _BROKEN),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _TOO_FEW),
}


class UnloadedPackage(ModuleType):
    """A package that is loaded by the first use of what is in it, not by `import`."""

    @classmethod
    def put(cls, name: str) -> None:
        """Let the first use load a package, unless it is loaded already or is not installed."""
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            package = sys.modules[name] = cls(name)
            package.__spec__, package.__path__ = spec, list(spec.submodule_search_locations or ())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which the import itself looks for
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class Lazy(NamedTuple):
    """A command that is not loaded: the module here that has it, its line in the list, and its name in the module."""

    module: str
    help: str
    name: str = "command"


COMMANDS: Mapping[str, Lazy] = {
    "up": Lazy("up", "Run everything, HTTP too, until Ctrl-C; with --detach until engramq down."),
    "down": Lazy("up", "Stop the home's stack, also while clients use it.", "down"),
    "demo": Lazy("demo", "Show in a throw-away home what the memory does, with engramq's own decisions."),
    "service": Lazy("service", "Have the system start the stack when you log in, and keep it up."),
    "status": Lazy("status", "Show what runs and how it is: health, mailboxes, processes, memory, clients, addresses."),
    "ui": Lazy("status", "Open the page in a browser, and print its address.", "ui"),
    "doctor": Lazy("status", "Name what is wrong and how to mend it, whether or not anything runs.", "doctor"),
    "stdio": Lazy("up", "Serve MCP on standard input and output, sharing the home's stack.", "stdio"),
    "connect": Lazy("connect", "Write engramq into the configuration of an MCP client, or take it out."),
    "rules": Lazy("rules", "Print what AGENTS.md or CLAUDE.md should say of the memory, or write it there."),
    "hooks": Lazy("hooks", "Let Claude Code, Codex or Gemini CLI recall and capture without being asked."),
    "hook": Lazy("hooks", "Handle one event of a client; engramq hooks has clients run it.", "hook"),
    "gateway": Lazy("gateway", "Serve MCP over HTTP (or on a socket), with the servers of the environment."),
    "worker": Lazy("worker", "Run workers of the given kinds, or of all."),
    "migrate": Lazy("migrate", "Bring the database's schema up to this version."),
    "search": Lazy("memories", "Find memories by meaning and words, likely ones first.", "search"),
    "survey": Lazy("memories", "Survey a topic: extracts of all about it, in order of time.", "survey"),
    "list": Lazy("memories", "List memories, newest first, all that the options name.", "list_memories"),
    "recent": Lazy("memories", "Show the newest memories, of every kind of trust.", "recent"),
    "standing": Lazy("memories", 'List standing wishes ("always", "from now on"), newest first.', "standing"),
    "projects": Lazy("projects", "List projects with how many memories each has; rename or merge them."),
    "show": Lazy("memories", "Show one memory whole, with its links.", "show"),
    "why": Lazy(
        "memories", "Say why a memory is known: who stored, trusted, replaced and used it, and what it rests on.", "why"
    ),
    "store": Lazy("memories", "Keep one memory, and print its id.", "store"),
    "forget": Lazy("memories", "Hide a memory from searches and lists, or erase it for good.", "forget"),
    "verify": Lazy("review", "Say that memories were checked against their source.", "verify"),
    "promote": Lazy("review", "Make verified memories trusted, so that searches show them.", "promote"),
    "reject": Lazy("review", "Say that memories are false or misleading, which hides them.", "reject"),
    "share": Lazy("review", "Let everybody in the namespace see private memories of yours.", "share"),
    "unshare": Lazy("review", "Make memories private again, as long as nobody has built on them.", "unshare"),
    "supersede": Lazy("review", "Replace the memory OLD by NEW: searches and lists hide the old one.", "supersede"),
    "update": Lazy("review", "Correct what is said about a memory: its date, speaker, tags and the like.", "update"),
    "restore": Lazy("restore", "Bring back a memory, by its ID, or make a home of a backup, by its FILE."),
    "import": Lazy(
        "import_file", "Load memories from files, other systems, notes and past sessions, or restore an export."
    ),
    "export": Lazy("export", "Write everything of a namespace to a file, which engramq import restores."),
    "backup": Lazy("restore", "Save the home in a file, while it is used.", "backup"),
    "purge": Lazy(
        "purge", "List, then erase for good, what a principal wrote, or memories of a source, thread, project or time."
    ),
    "duplicates": Lazy("duplicates", "List memories that say the same, and with --merge --yes keep one of each group."),
    "contradictions": Lazy(
        "review", "List pairs of memories that say otherwise about the same thing, newest first.", "contradictions"
    ),
    "graph": Lazy("graph", "List deleted edges and nodes of the knowledge graph, and restore them."),
    "check": Lazy("check", "Compare what memories cite with the files of a repository."),
    "audit": Lazy("audit", "Show who did what, newest last."),
    "receipt": Lazy("receipt", "Print a signed receipt of what a command did, or of how something was erased."),
    "dead": Lazy("dead", "List, show, retry and drop commands that were given up."),
    "model": Lazy("model", "List the models that make vectors here, and build the multilingual one."),
    "tenant": Lazy("tenant", "List, configure and delete whole namespaces."),
    "webhook": Lazy("webhook", "Tell servers of yours what happens in a namespace."),
    "token": Lazy("token", "Make, list and revoke the bearer tokens of HTTP clients."),
}


ERASING: Final = "purge, which erases for good"
# Words that people type first for a command of another name, and what they may not expect of it.
OTHER_WORDS: Final = {
    "start": "up", "run": "up", "serve": "up", "stop": "down", "kill": "down", "quit": "down", "launch": "up",
    "init": "up", "setup": "up", "server": "up", "exit": "down", "restart": "down, then 'up'",
    "help": "--help", "version": "--version", "logs": "status", "tail": "status", "upgrade": "migrate",
    "load": "import", "ingest": "import", "dump": "export", "copy": "backup", "clean": ERASING, "reset": ERASING,
    "clear": ERASING, "rename": "projects rename", "memories": "list", "all": "list", "count": "projects",
    "note": "store", "create": "store", "insert": "store", "read": "show", "dashboard": "ui", "settings": "doctor",
    "config": "doctor", "similar": "duplicates", "conflicts": "contradictions", "tokens": "token list",
    "users": "token list", "wishes": "standing", "approve": "promote", "trust": "promote",
    "add": "store", "save": "store", "remember": "store", "new": "store", "write": "store",
    "find": "search", "query": "search", "ask": "search", "grep": "search", "recall": "search",
    "delete": "forget", "remove": "forget", "rm": "forget", "archive": "forget", "erase": "forget --erase",
    "undo": "restore", "edit": "supersede", "replace": "supersede", "change": "update", "tag": "update",
    "get": "show", "view": "show", "ls": "list", "log": "audit", "history": "audit", "stats": "status",
    "info": "status", "health": "doctor", "merge": "duplicates --merge", "dedupe": "duplicates --merge",
    "client": "connect", "install": "hooks install", "login": "token create", "web": "ui", "page": "ui", "open": "ui",
}  # fmt: skip


class _Failed(Exception):
    """Carries an error past click, which takes every broken pipe for that of standard output, and ends silently."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem)
        self.problem = problem


class LazyGroup(click.Group):
    """Loads a command when it is called or asked for its help; says of every error what it is and how to mend it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return a command, loaded, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        lazy = COMMANDS[cmd_name]
        gc.disable()  # modules stay: looking through them again and again is a tenth of loading those of a worker
        try:
            module = importlib.import_module(f"engramq.deploy.cli.{lazy.module}")
        finally:
            gc.freeze()  # nor later
            gc.enable()
        command: click.Command = getattr(module, lazy.name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; the refusal of an unknown word names the command that may be meant."""
        if args[0] not in COMMANDS:
            near = [OTHER_WORDS[args[0]]] if args[0] in OTHER_WORDS else get_close_matches(args[0], COMMANDS, n=1)
            if near:
                meant, *more = near[0].split(", ")
                ctx.fail(f"No such command {args[0]!r}. Did you mean {', '.join((repr(meant), *more))}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the list without loading what it lists."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was called; what the user can mend is said in one line."""
        try:
            return super().invoke(ctx)
        except (CommandFailed, DeployError, EngramqError, SettingsError) as problem:
            text, code = _answer_to(problem)
            click.echo(f"engramq {ctx.invoked_subcommand}: {text}", err=True)
            ctx.exit(code)
        except OSError as problem:
            raise _Failed(problem) from problem
        except ExceptionGroup as group:
            if (refused := _of_the_machine(group)) is not None:
                raise _Failed(refused) from group
            raise


def _of_the_machine(problem: BaseException) -> OSError | None:
    """Return this error, or one in this group, if a disk or a limit has caused it; None for any other."""
    if isinstance(problem, ExceptionGroup):
        return next((found for each in problem.exceptions if (found := _of_the_machine(each)) is not None), None)
    return problem if isinstance(problem, OSError) and problem.errno in _OF_THE_MACHINE else None


def _answer_to(problem: CommandFailed | DeployError | EngramqError | SettingsError) -> tuple[str, ExitCode]:
    match problem:
        case CommandFailed():
            return str(problem), problem.code
        case EngramqError():
            return refusal_text(problem.fault.error, problem.fault.recovery), ExitCode.FAILED
        case DeployError():
            return str(problem), problem.exit_code
        case SettingsError():
            return str(problem), ExitCode.MISUSED


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("engramq"), prog_name="engramq")
@click.pass_context
def engramq(context: click.Context) -> None:
    """Long-term memory for AI agents, over MCP.

    `engramq up` runs everything on embedded servers below ENGRAMQ_HOME (default ~/.engramq).
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code, having printed what is to be said."""
    # Without a handler Python prints warnings of a command that has set up no log, and its caller reads them.
    logging.getLogger("engramq").addHandler(logging.NullHandler())
    # redis-py imports it, with most of cryptography, for a way to sign in that we do not take: 4 MB of each process.
    UnloadedPackage.put("jwt")
    with remembering() as failures:
        try:
            code = engramq.main(args=arguments, prog_name="engramq", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (OSError, _Failed) as error:
            problem = error.problem if isinstance(error, _Failed) else error
            if any(problem is failure for failure in failures):
                return _unwritten("What it prints", problem)
            if _of_the_machine(problem) is None:
                raise problem from None
            return _unwritten(problem.filename or "A file that it needs", problem)
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except click.Abort:
            return ExitCode.INTERRUPTED
    # Not standalone, click returns the code of an Exit, and else what the command returned.
    return code if isinstance(code, int) else ExitCode.DONE


def _unwritten(place: str, problem: OSError) -> ExitCode:
    """Say what the disk refuses, where somebody hears it; a reader that has gone needs no words."""
    if problem.errno != errno.EPIPE:
        cannot, recovery = _OF_THE_MACHINE.get(problem.errno, ("cannot be written", ""))
        with suppress(OSError):
            click.echo(f"engramq: {place} {cannot}: {problem.strerror}. {recovery}".rstrip(), err=True)
    return ExitCode.FAILED


class _Remembering(io.FileIO):
    """A descriptor of the process, which it leaves open."""

    def __init__(self, descriptor: int, failures: list[OSError]) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._failures = failures

    def write(self, data: Any, /) -> int:
        """Write as a file does."""
        try:
            return super().write(data)
        except OSError as problem:
            self._failures.append(problem)
            raise


@contextmanager
def remembering() -> Iterator[list[OSError]]:
    """Gather what standard output and error fail of while the block lasts: other files and sockets fail of the same.

    To flush them again tells nothing: what is not buffered (much at once, or PYTHONUNBUFFERED) is gone by then. Output
    that is left at the end and cannot be written goes nowhere.
    """
    failures: list[OSError] = []
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_remembered(stream, failures) for stream in before)
    mine = sys.stdout, sys.stderr
    try:
        yield failures
    finally:
        sys.stdout, sys.stderr = before
        for stream, given in zip(mine, before, strict=True):
            if stream is not given:
                _end(stream)


def _remembered(stream: TextIO, failures: list[OSError]) -> TextIO:
    """Return a stream to the same place; the same one where it was closed, or is a test's."""
    if not isinstance(stream, io.TextIOWrapper) or stream not in (sys.__stdout__, sys.__stderr__):
        return stream
    raw = _Remembering(stream.fileno(), failures)
    return io.TextIOWrapper(
        raw if stream.write_through and isinstance(stream.buffer, io.RawIOBase) else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )  # fmt: skip


def _end(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:  # at its end the interpreter would try again, and say so
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
