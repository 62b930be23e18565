"""A release of this tree in an index of its own, and clean environments to install it into."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tools.release.__main__ import ROOT, build

UV: Final = str(Path(sys.executable).with_name("uv"))
RELEASE: Final = ROOT / ".environments" / "release" / "bin"
BOUND_S: Final = 900.0
# How this machine reaches PyPI: mirrors, proxies, certificates.
OF_THE_NETWORK: Final = (
    "PIP_",
    "UV_",
    "SSL_",
    "REQUESTS_CA_",
    "HTTP_",
    "HTTPS_",
    "http_",
    "https_",
    "NO_PROXY",
    "no_proxy",
)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The sdist and the wheel."""
    return build(ROOT, tmp_path_factory.mktemp("dist"), "1763000000")


@pytest.fixture(scope="session")
def index(release: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a simple index that has engramq and nothing else."""
    root = tmp_path_factory.mktemp("index")
    folder = root / "simple" / "engramq"
    folder.mkdir(parents=True)
    for file in release:
        (folder / file.name).symlink_to(file)
    (folder / "index.html").write_text("".join(f'<a href="{file.name}">{file.name}</a>\n' for file in release))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()
        thread.join()


class Root:
    """Somebody's home with only Python and uv, and a project with folders of the names of ours."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "ada lovelace"
        self.project = folder / "project"
        for name in ("schemas", "gateway", "workers", "deploy"):
            (self.project / name).mkdir(parents=True)
            (self.project / name / "__init__.py").write_text(f"raise RuntimeError('the wrong {name}')\n")
        self.home.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name.startswith(OF_THE_NETWORK)},
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(UV).parent), "/usr/bin", "/bin"]),
            "PYTHONPATH": str(self.project),
            "ENGRAMQ_HOME": str(self.home / "memory"),
            # What was fetched once need not be fetched again.
            "UV_CACHE_DIR": subprocess.run(
                [UV, "cache", "dir"], capture_output=True, text=True, check=True
            ).stdout.strip(),
            "UV_LINK_MODE": "hardlink",
        }

    def run(self, *command: str, given: str = "", **variables: str) -> str:
        """Run a command in the project; return what it printed."""
        ended = subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment, **variables},
            input=given,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@contextmanager
def serving(root: Root, *command: str) -> Iterator[Any]:
    """Run `engramq stdio` by a command; gives what calls its tools."""
    with subprocess.Popen(
        command, cwd=root.project, env=root.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(method: str, number: int, **parameters: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]  # asserted above
            process.stdin.flush()  # type: ignore[union-attr]
            return json.loads(process.stdout.readline())["result"]  # type: ignore[union-attr]

        client = {"name": "test", "version": "1"}
        ask("initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
        yield lambda tool, **arguments: ask("tools/call", 1, name=tool, arguments=arguments)["structuredContent"]
        process.stdin.close()
        process.wait(60)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)
