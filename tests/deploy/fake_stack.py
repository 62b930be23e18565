"""A supervisor over the fake programs: `python fake_stack.py [SERVICE ...]`; each name adds one to the usual ones.

`servers` puts the embedded PostgreSQL and Redis before them.
"""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from engramq.deploy.local.embedded.process import LaunchOrder
from engramq.deploy.local.home import Home
from engramq.deploy.local.supervisor.__main__ import main
from engramq.deploy.local.supervisor.stack import HttpDoor, Stack, SupervisedService, accepts, default_stack

PROGRAMS = str(Path(__file__).with_name("fake_programs.py"))


def program(home: Home, name: str, *arguments: str, death_signal: int = 15) -> LaunchOrder:
    argv = (sys.executable, "-I", "-S", PROGRAMS, name, str(home.path), *arguments)
    return LaunchOrder(argv, environment=dict(os.environ), death_signal=death_signal)


def worker(home: Home) -> SupervisedService:
    mark, ailment = home.path / "worker.up", home.path / "worker.ails"
    return SupervisedService(
        "worker",
        lambda: program(home, "worker"),
        after=("migrate",),
        prepare=lambda: mark.unlink(missing_ok=True),
        is_ready=mark.exists,
        tend=lambda: ailment.read_text() if ailment.exists() else "",
    )


def gateway(home: Home, http: HttpDoor) -> SupervisedService:
    def make_way() -> None:
        home.make_again()
        home.gateway_socket.unlink(missing_ok=True)
        http.forget()

    return SupervisedService(
        "gateway",
        lambda: program(home, "gateway", str(home.gateway_socket)),
        prepare=make_way,
        tend=http.tend,
        sockets=(home.gateway_socket,),
        is_ready=lambda: accepts(socket.AF_UNIX, str(home.gateway_socket)),
    )


def mutual(home: Home, name: str, other: str) -> SupervisedService:
    """A service that ends only once the other has been told to."""
    told = f"touch {home.path}/{name}.told; while [ ! -e {home.path}/{other}.told ]; do sleep 0.02; done"
    waits = f"trap '{told}; echo {name} >> {home.path}/stopped; exit' TERM; while :; do sleep 0.02; done"
    return SupervisedService(name, lambda: LaunchOrder(("/bin/sh", "-c", waits)), settle_s=0.3)


class BrokenSettings:
    """Finds the module of the settings as a release leaves it that was written in part."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "engramq.schemas.settings":
            raise SyntaxError("unexpected end of file")


def make_stack(extra: list[str], home: Home, environment: Mapping[str, str]) -> Stack:
    real = default_stack(home, environment)
    assert real.http is not None
    services = [
        SupervisedService("migrate", lambda: LaunchOrder(("/bin/true",)), once=True),
        worker(home),
        gateway(home, real.http),
    ]
    if "servers" in extra:
        services[:0] = [service for service in real.services if service.name in ("postgres", "redis")]
    if "broken" in extra:
        sys.meta_path.insert(0, BrokenSettings)
    if "failing" in extra:
        services.append(SupervisedService("failing", lambda: program(home, "failing"), settle_s=1.0))
    if "orphan" in extra:
        # As on systems where the kernel does not end the children of a killed parent.
        deaf, quick = partial(program, home, "deaf", death_signal=0), ((15, 0.2), (9, 5.0))
        services.append(SupervisedService("orphan", deaf, settle_s=0.3, stop_signals=quick, orphan_signals=quick))
    if "deaf" in extra:
        slow, quick = ((15, 8.0), (9, 5.0)), ((15, 0.2), (9, 5.0))
        for name in ("deaf0", "deaf1", "deaf2"):  # each stops by itself
            deaf = partial(program, home, "deaf")
            services.append(
                SupervisedService(name, deaf, uses=(name,), settle_s=0.3, stop_signals=slow, hung_signals=quick)
            )
    if "mutual" in extra:
        services += [mutual(home, "this", "that"), mutual(home, "that", "this")]
    names = tuple(service.name for service in services)
    needs = {"stdio": ("gateway",), "up": names, "detached": names, "command": names, "worker": names}
    needs["backup"] = tuple({"postgres"} & set(names))
    return replace(real, services=tuple(services), needs=needs)


if __name__ == "__main__":
    sys.exit(main(os.environ, partial(make_stack, sys.argv[1:])))
