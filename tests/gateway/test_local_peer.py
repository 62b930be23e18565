"""Unauthenticated HTTP serves its owner only: whose process asks is looked up, and where it cannot be, a token says it.

As root the tests ask as a second user of the machine; else a table of the kernel's is written by hand.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import fail_after, open_process, to_thread

from engramq.gateway.identity import local_peer
from engramq.gateway.identity.local_peer import TOKEN_FILE, LocalConnection, home_token, owner_of
from engramq.gateway.protocol import BOUNDS
from engramq.schemas.keys import Keys
from tests.deploy.helpers import OTHER, needs_root
from tests.gateway.test_http import ERAS, message, serve

pytestmark = pytest.mark.promise("SE-16")

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the owners of sockets")

# Sends standard input to a port as a user, and prints the answer, or closes at once.
ASKER = """
import os, socket, sys
"localhost".encode("idna")  # loaded while this user may still read the interpreter's files
uid, port, waits = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "waits"
os.setgroups([]); os.setgid(uid); os.setuid(uid)
line = socket.create_connection(("127.0.0.1", port), timeout=20)
line.sendall(sys.stdin.buffer.read())
while waits and (data := line.recv(65536)):
    sys.stdout.buffer.write(data)
line.close()
"""


async def asked_as(uid: int, port: int, request: bytes, *, waits: bool = True) -> tuple[int, str]:
    """Return status and body of what this user's process is answered."""
    argv = [sys.executable, "-I", "-S", "-c", ASKER, str(uid), str(port), "waits" if waits else "leaves"]
    done = await to_thread.run_sync(
        lambda: subprocess.run(argv, input=request, capture_output=True, timeout=30, check=True)
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    return (int(head.split(b" ", 2)[1]), body.decode()) if head else (0, "")


def request_of(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    named = {"host": "localhost", "connection": "close", "content-length": str(len(body)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def a_call(era: str, **headers: str) -> bytes:
    routing = {"mcp-protocol-version": era}
    if era == ERAS[1]:
        routing |= {"mcp-method": "tools/call", "mcp-name": "store_memory"}
    kinds = {"content-type": "application/json", "accept": "application/json"}
    return request_of("POST", "/mcp", json.dumps(message(era)).encode(), **kinds, **routing, **headers)


@needs_root
@on_linux
@pytest.mark.parametrize("era", ERAS)
async def test_another_account_is_refused_and_a_token_of_the_home_stands_in(
    redis_url: str, keys: Keys, era: str, tmp_path: Path
) -> None:
    async with serve(redis_url, keys, home=str(tmp_path)) as (site, workers):
        assert (await asked_as(os.geteuid(), site.port, a_call(era)))[0] == 200
        seen = len(workers.seen)
        for request in (a_call(era), request_of("GET", "/nothing")):
            status, body = await asked_as(OTHER, site.port, request)
            assert (status, "another account's" in json.loads(body)["error"]) == (403, True)
        for account in (OTHER, os.geteuid()):  # a token means to be its principal, which may do less
            for given in ("Bearer wrong", "Basic d2ViOnh5eg=="):
                status, body = await asked_as(account, site.port, a_call(era, authorization=given))
                assert (status, "takes no tokens" in json.loads(body)["error"]) == (401, True)
        await asked_as(OTHER, site.port, a_call(era), waits=False)  # whose socket is gone when it is looked up
        assert (await asked_as(OTHER, site.port, request_of("GET", "/healthz")))[0] == 200
        assert len(workers.seen) == seen

        token = (tmp_path / TOKEN_FILE).read_text().strip()
        assert (await asked_as(OTHER, site.port, a_call(era, authorization=f"Bearer {token}")))[0] == 200


# Opens so many connections to a port as a user, says so, and holds them until its input ends.
HOLDER = """
import os, socket, sys
"localhost".encode("idna")
uid, port, count = map(int, sys.argv[1:4])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
lines = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]
for line in lines:
    line.sendall(b"GET /healthz HTTP/1.1\\r\\nhost: localhost\\r\\n")
print("held", flush=True)
sys.stdin.read()
"""


@needs_root
@on_linux
async def test_another_account_cannot_close_the_server_to_its_owner(redis_url: str, keys: Keys) -> None:
    """Security finding 12: every account of a machine comes from 127.0.0.1."""
    bounds = replace(BOUNDS, connections=8, share=4, spare=4, spare_of_one=2)
    async with serve(redis_url, keys, bounds=bounds) as (site, _), AsyncExitStack() as holders:
        for uid in (OTHER, OTHER + 1, OTHER + 2):
            argv = [sys.executable, "-I", "-S", "-c", HOLDER, str(uid), str(site.port), "8"]
            holder = await holders.enter_async_context(
                await open_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
            )
            assert holder.stdout is not None
            with fail_after(20):
                assert (await holder.stdout.receive()).strip() == b"held"
        for _ in range(3):
            for request in (a_call(ERAS[0]), request_of("GET", "/healthz")):
                assert (await asked_as(os.geteuid(), site.port, request))[0] == 200
        assert (await asked_as(OTHER, site.port, request_of("GET", "/nothing")))[0] == 503


@pytest.mark.parametrize("era", ERAS)
async def test_where_owners_cannot_be_known_only_the_token_opens(
    redis_url: str, keys: Keys, era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_peer, "_NETLINK", None)
    monkeypatch.setattr(local_peer, "_TABLES", (tmp_path / "no-table",))
    async with serve(redis_url, keys, home=str(tmp_path)) as (site, _):
        status, answer = await site.raw(a_call(era))
        assert (status, TOKEN_FILE in json.loads(answer)["error"]) == (403, True)
        token = (tmp_path / TOKEN_FILE).read_text().strip()
        assert (await site.raw(a_call(era, authorization=f"Bearer {token}")))[0] == 200
        assert (await site.raw(a_call(era, authorization=f"Bearer {token}x")))[0] == 401
        assert await site.alive()


@on_linux
@pytest.mark.parametrize(("bound", "asked"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "::ffff:127.0.0.1")])
@pytest.mark.parametrize("netlink", [True, False], ids=["netlink", "proc"])
def test_the_owner_of_a_connection_is_found(
    bound: str, asked: str, monkeypatch: pytest.MonkeyPatch, netlink: bool
) -> None:
    if netlink:
        monkeypatch.setattr(local_peer, "_TABLES", ())
    else:
        monkeypatch.setattr(local_peer, "_NETLINK", None)
    kind = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.socket(kind) as server:
        try:
            server.bind((bound, 0))
        except OSError:
            pytest.skip("there is no IPv6 here")
        server.listen()
        port = server.getsockname()[1]
        client = socket.create_connection((asked, port))
        line, peer = server.accept()
        with line:
            ends = (peer[0], peer[1]), (line.getsockname()[0], port)
            assert owner_of(*ends) == os.geteuid()
            assert owner_of(ends[0], (ends[1][0], port + 1)) is None
            client.close()
            assert owner_of(*ends) is None  # the kernel says root, of a socket that nobody has


def test_a_table_is_read_by_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "   0: {0} {1} 01 00000000:00000000 00:00000000 00000000 {2:5} 0 {3} 1 0000000000000000 20 4 0 10 -1\n"
    ours, theirs, server = ("0100007F:9C40", "0100007F:9C41", "0100007F:223D")
    table = tmp_path / "tcp"
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        + row.format(server, ours, 7, 11)  # the server's own end
        + row.format(ours, server, 1000, 12)
        + row.format(theirs, server, 1001, 13)
        + row.format("0100007F:9C42", server, 0, 0)
    )
    monkeypatch.setattr(local_peer, "_NETLINK", None)
    monkeypatch.setattr(local_peer, "_TABLES", (tmp_path / "none", table))
    if sys.byteorder != "little":
        pytest.skip("the table here is one of a little-endian machine")
    found = [owner_of(("127.0.0.1", port), ("127.0.0.1", 8765)) for port in (40_000, 40_001, 40_002, 40_003)]
    assert found == [1000, 1001, None, None]


def test_an_owner_is_looked_up_once() -> None:
    asked: list[object] = []
    line = LocalConnection(("127.0.0.1", 1), ("127.0.0.1", 2), lambda *ends: asked.append(ends))
    assert [line.owner(), line.owner()] == [None, None]
    assert len(asked) == 1
    assert LocalConnection(None, None).owner() is None


def test_a_token_is_kept_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    token = home_token(tmp_path)
    assert token is not None
    assert len(token) >= 43
    assert home_token(tmp_path) == token
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [(TOKEN_FILE, 0o600)]
    (tmp_path / TOKEN_FILE).chmod(0o640)
    with pytest.raises(PermissionError):
        home_token(tmp_path)
    assert home_token(tmp_path / "nowhere") is None


def test_a_token_that_a_power_cut_left_empty_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).touch(0o600)
    with pytest.raises(OSError, match="is empty: delete it"):
        home_token(tmp_path)
