"""Builds what a Dockerfile says without a container engine: each stage a folder, each step in it by chroot, as root.

Knows the instructions that ours has, and refuses others. A stage begins as a copy of one root file system, Debian's
with Python, which stands in for the base image; the machine's certificates are lent to steps that run.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

RELEASE: Final = "bookworm"
PACKAGES: Final = "python3,python3-venv,python3-pip,ca-certificates"
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"
MIRROR: Final = "http://deb.debian.org/debian"
STEP_BOUND_S: Final = 900.0
LENT: Final = ("etc/resolv.conf", "etc/hosts", CERTIFICATES)
OF_THE_INDEX: Final = r"(?i)(https?|no)_proxy|PIP_INDEX_URL"
# What changes nothing here.
SILENT: Final = {"ARG", "EXPOSE", "LABEL", "STOPSIGNAL"}


@dataclass
class Stage:
    """What one FROM has become so far."""

    root: Path
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    )
    folder: str = "/"
    user: str = "0:0"
    health: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def bootstrap(root: Path) -> None:
    """Make the root file system that stands in for the base image, `python` where that has it."""
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(root), MIRROR],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=STEP_BOUND_S,
    )
    (root / "usr" / "local" / "bin" / "python").symlink_to("/usr/bin/python3")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile with what is said after them, on one line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, _, rest = line.partition(" ")
        yield name, rest.strip()


def build(dockerfile: Path, context: Path, base: Path, folder: Path) -> Stage:
    """Carry out all instructions; returns the last stage. Every FROM begins with a copy of `base`."""
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    for name, rest in instructions(dockerfile.read_text(encoding="utf-8")):
        if name == "FROM":
            called = rest.split(" AS ")[1] if " AS " in rest else "last"
            stage = stages[called] = Stage(folder / called)
            subprocess.run(["cp", "--archive", str(base), str(stage.root)], check=True)
        elif name == "COPY":
            _copy(stage, rest.split(), context, stages)
        elif name == "RUN":
            inside(stage, ["sh", "-ec", rest])
        elif not _noted(stage, name, rest):
            assert name in SILENT, f"{name}: not known here"
    return stage


def _noted(stage: Stage, name: str, rest: str) -> bool:
    """Take what an instruction says about the steps and processes that follow; False for another instruction."""
    match name:
        case "WORKDIR":
            stage.folder = rest
            _inside(stage, rest).mkdir(parents=True, exist_ok=True)
        case "ENV":
            for word in shlex.split(rest):
                variable, _, value = word.partition("=")
                stage.environment[variable] = value.replace("$PATH", stage.environment["PATH"])
        case "USER":
            stage.user = rest
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case _:
            return False
    return True


def inside(stage: Stage, command: Sequence[str]) -> None:
    """Run a step as root in a writable stage, with the machine's way to the package index; fails with what it said."""
    for name in LENT:
        shutil.copyfile(Path("/") / name, stage.root / name)
    lent = {name: value for name, value in os.environ.items() if re.fullmatch(OF_THE_INDEX, name)}
    environment = {**stage.environment, "PIP_CERT": f"/{CERTIFICATES}", **lent}
    variables = [f"{name}={value}" for name, value in environment.items()]
    script = f"cd {shlex.quote(stage.folder)} && exec {shlex.join(command)}"
    done = subprocess.run(
        ["chroot", str(stage.root), "env", "--ignore-environment", *variables, "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=STEP_BOUND_S,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def as_container(stage: Stage, command: Sequence[str], variables: dict[str, str]) -> list[str]:
    """Return the command line that runs in the stage as a container does: its user, a read-only root, no rights."""
    root = str(stage.root)
    given = [f"{name}={value}" for name, value in {**stage.environment, **variables}.items()]
    mounts = [
        f"mount --bind {root} {root}",
        f"mount -o remount,ro,bind {root}",
        f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
    ]
    enter = ["chroot", f"--userspec={stage.user}", "--groups=", root, "env", "--ignore-environment", *given, *command]
    drop = ["setpriv", "--no-new-privs", *enter]
    return [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-ec",
        "; ".join([*mounts, f"exec {shlex.join(drop)}"]),
    ]


def _inside(stage: Stage, path: str) -> Path:
    return stage.root / str(Path(stage.folder, path)).lstrip("/")


def _copy(stage: Stage, words: list[str], context: Path, stages: dict[str, Stage]) -> None:
    *sources, target = [word for word in words if not word.startswith("--")]
    origin = next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), None)
    into = _inside(stage, target)
    for source in sources:
        if origin is not None:
            shutil.copytree(stages[origin].root / source.lstrip("/"), into, symlinks=True, dirs_exist_ok=True)
        elif source == ".":
            for name in let_in(context):
                _take(context / name, into / name)
        else:
            _take(context / source, into / Path(source).name)


def _take(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def let_in(context: Path) -> list[str]:
    """Return the names that .dockerignore lets in: ours shuts out all and names what comes in."""
    lines = (context / ".dockerignore").read_text(encoding="utf-8").split("\n")
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*", ".dockerignore begins by shutting out all"
    named = [pattern[1:] for pattern in patterns[1:] if pattern.startswith("!")]
    assert set(patterns) - {f"!{name}" for name in named} == {"*", "**/__pycache__"}
    return [name for name in named if (context / name).exists()]
