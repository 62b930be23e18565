"""What a connection may cost: bytes and time of heads and bodies, and how many one address may hold; in raw HTTP."""

import json
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from engramq.gateway.bodies import REST, Bodies, NoRoom, Turns
from engramq.gateway.identity import local_peer
from engramq.gateway.protocol import BOUNDS, Admission, ConnectionBounds, ConnectionCounts
from engramq.gateway.router import LARGE_BYTES
from engramq.schemas.keys import Keys
from tests.gateway import test_http as http
from tests.gateway.conftest import gateway_over
from tests.gateway.test_http import ERAS, Site, message, site_of

pytestmark = pytest.mark.promise("SE-14")

QUICK = replace(BOUNDS, header_s=0.4, body_s=0.4, linger_s=0.3, spare_s=0.4, write_s=0.5)
BOUND_S = 20.0
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\n"


@asynccontextmanager
async def served(
    redis_url: str, keys: Keys, bounds: ConnectionBounds = QUICK, auth: str = "none"
) -> AsyncIterator[Site]:
    async with http.serve(redis_url, keys, bounds=bounds, auth=auth) as (site, _):
        yield site
        assert await site.alive()


class Line:
    """A connection by hand, from an address of this machine; reads have a bound."""

    def __init__(self, port: int, source: str = "127.0.0.1", *, narrow: bool = False) -> None:
        """`narrow`: a few KB wait for who reads them, not megabytes, since small segments have small buffers."""
        self.socket = socket.socket()
        if narrow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        self.socket.settimeout(BOUND_S)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def rest(self) -> bytes:
        """Return what comes until the server ends the connection."""
        found = b""
        try:
            while data := self.socket.recv(65_536):
                found += data
        except ConnectionResetError:
            pass
        return found

    def answer(self) -> bytes:
        """Return one answer with its body, of a connection that stays open."""
        found = b""
        while b"\r\n\r\n" not in found:
            found += self.socket.recv(65_536)
        head, _, body = found.partition(b"\r\n\r\n")
        length = next(int(word.split(b":")[1]) for word in head.split(b"\r\n") if word.startswith(b"content-length"))
        while len(body) < length:
            body += self.socket.recv(65_536)
        return head + b"\r\n\r\n" + body


async def over(site: Site, talk: Callable[[Line], bytes], source: str = "127.0.0.1", *, narrow: bool = False) -> bytes:
    """Return what a talk over a line of its own gives; it blocks, so it has a thread."""

    def whole() -> bytes:
        with Line(site.port, source, narrow=narrow) as line:
            return talk(line)

    return await to_thread.run_sync(whole)


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def sending(*parts: bytes) -> Callable[[Line], bytes]:
    """Return a talk that sends these, as far as it is let, and reads until the end."""

    def talk(line: Line) -> bytes:
        try:
            for part in parts:
                line.socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return line.rest()

    return talk


async def test_a_head_of_a_megabyte_is_refused(redis_url: str, keys: Keys) -> None:
    large = b"x: " + b"a" * 1_000_000
    many = b"a: b\r\n" * 20_000
    async with served(redis_url, keys) as site:
        for head in (large, many, b"\r\n".join([b"x: " + b"a" * 1_000] * 1_000)):
            for end in (b"\r\n\r\n", b""):
                answer = await over(site, sending(HEALTH + head + end))
                assert status_of(answer) == 431
                assert b"connection: close" in answer
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == "error"
        assert status_of(await over(site, sending(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n"))) == 431
        fits = HEALTH + b"x: " + b"a" * 60_000 + b"\r\nconnection: close\r\n\r\n"
        assert status_of(await over(site, sending(fits))) == 200
        # In small pieces, so that each alone would pass; the whole is far over what is ever kept.
        assert status_of(await over(site, sending(HEALTH, *[b"y: " + b"b" * 1_000 + b"\r\n"] * 2_000))) == 431


@pytest.mark.long
async def test_a_head_that_comes_slowly_is_ended(redis_url: str, keys: Keys) -> None:
    def dripping(line: Line) -> bytes:
        line.socket.settimeout(0.05)
        for byte in HEALTH * 100:
            try:
                line.socket.sendall(bytes([byte]))
                if data := line.socket.recv(65_536):
                    return data
            except TimeoutError:
                continue
            return b""
        raise AssertionError("a head had no end")

    async with served(redis_url, keys) as site:
        began = time.monotonic()
        assert status_of(await over(site, sending(HEALTH))) == 408
        assert status_of(await over(site, dripping)) == 408
        assert await over(site, sending()) == b""  # nothing was asked, so nothing is answered
        assert await over(site, sending(b"\r\n")) == b""
        assert time.monotonic() - began < BOUND_S


async def test_a_second_request_has_as_little_time(redis_url: str, keys: Keys) -> None:
    def again(line: Line, half: bytes) -> bytes:
        line.socket.sendall(HEALTH + b"\r\n")
        assert status_of(line.answer()) == 200
        line.socket.sendall(half)
        return line.rest()

    async with served(redis_url, keys) as site:
        assert status_of(await over(site, lambda line: again(line, HEALTH))) == 408
        assert await over(site, lambda line: again(line, b"\r\n")) == b""


@pytest.mark.parametrize("auth", ["none", "token"])
async def test_a_body_that_comes_slowly_is_ended(
    redis_url: str, keys: Keys, auth: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with served(redis_url, keys, auth=auth) as site:
        for head, part in ((b"content-length: 100", b"{"), (b"transfer-encoding: chunked", b"1\r\n{\r\n")):
            answer = await over(site, sending(POST + head + b"\r\n\r\n", part))
            assert (status_of(answer), answer.count(b"HTTP/1.1")) == (408, 1)
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


async def test_frames_without_a_body_are_refused(redis_url: str, keys: Keys) -> None:
    patient = replace(QUICK, body_s=BOUND_S)
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n"
    async with served(redis_url, keys, patient) as site:
        for frame in (b"1;" + b"x" * 3_000_000, b"1\r\n{\r\n0\r\nx: " + b"y" * 3_000_000):
            assert status_of(await over(site, sending(chunked, frame))) == 400
        tiny = b"1\r\n \r\n" * 200_000 + b"0\r\n\r\n"  # five bytes of frame for each of the body are a body
        answer = await over(site, sending(POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n", tiny))
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == -32700


@pytest.mark.parametrize("era", ERAS)
async def test_trailers_are_no_headers(redis_url: str, keys: Keys, era: str) -> None:
    body = json.dumps(message(era)).encode()
    async with served(redis_url, keys) as site:
        routing = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in site.routing(body, era).items())
        head = POST + routing.encode() + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        whole = head + b"%x\r\n%s\r\n0\r\nhost: evil.example\r\n\r\n" % (len(body), body)
        assert status_of(await over(site, sending(whole))) == 200


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.long
async def test_requests_in_a_row_wait_for_each_other_without_losing_time(redis_url: str, keys: Keys, era: str) -> None:
    """The second is whole only after the first was answered, which takes longer than a head or body may."""
    body = json.dumps(message(era)).encode()
    async with gateway_over(redis_url, keys, 1.5) as gateway, site_of(gateway, QUICK) as site:  # no worker answers
        routing = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in site.routing(body, era).items())
        request = POST + routing.encode() + b"content-length: %d\r\n\r\n%s" % (len(body), body)

        def both(line: Line) -> bytes:
            line.socket.sendall(request + request[:40])
            first = line.answer()
            line.socket.sendall(request[40:])
            return first + line.answer()

        answers = await over(site, both)
        assert answers.count(b"HTTP/1.1 200 OK") == 2
        assert answers.count(b"pending") >= 2


async def test_one_address_cannot_take_every_connection(
    redis_url: str, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_peer, "_NETLINK", None)  # where accounts are not known at once
    bounds = replace(BOUNDS, share=300, connections=600, header_s=BOUND_S, spare_s=BOUND_S)
    async with served(redis_url, keys, bounds) as site:
        assert await site.alive()
        with ExitStack() as lines:

            def take() -> list[Line]:
                return [lines.enter_context(Line(site.port)) for _ in range(500)]

            held = await to_thread.run_sync(take)
            # From another address everything is answered, also over many connections.
            for _ in range(20):
                ask = sending(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                assert status_of(await over(site, ask, "127.0.0.2")) == 200
                assert status_of(await over(site, sending(POST + b"connection: close\r\n\r\n"), "127.0.0.2")) == 400
            # From that one nothing else is, and those over its share were told so.
            refused = held[bounds.share + bounds.spare_of_one]
            assert status_of(await to_thread.run_sync(refused.rest)) == 503
            first, spare = held[0], held[bounds.share]
            for line, request, status in (
                (first, POST + b"connection: close\r\n\r\n", 400),
                (spare, HEALTH + b"\r\n", 200),
                (held[bounds.share + 1], POST + b"\r\n", 503),
            ):
                line.socket.sendall(request)
                answer = await to_thread.run_sync(line.rest)
                assert status_of(answer) == status
                assert b"connection: close" in answer
        with anyio.fail_after(BOUND_S):
            while status_of(await over(site, sending(POST + b"connection: close\r\n\r\n"))) != 400:
                pass  # the server learns bit by bit that they are gone


async def test_connections_that_ask_nothing_end_by_themselves(redis_url: str, keys: Keys) -> None:
    async with served(redis_url, keys, replace(QUICK, share=50, connections=100)) as site:
        with ExitStack() as lines:
            held = [lines.enter_context(Line(site.port)) for _ in range(60)]
            for line in held:
                assert not (rest := await to_thread.run_sync(line.rest)) or status_of(rest) == 503
            assert await site.alive()


@pytest.mark.long
async def test_who_does_not_read_is_ended(redis_url: str, keys: Keys) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'  # whose answer has 50 KB
    request = POST + b"mcp-protocol-version: 2025-11-25\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with served(redis_url, keys) as site:

        def greedy(line: Line) -> bytes:
            try:
                for _ in range(10_000):
                    line.socket.sendall(request * 20)
            except (BrokenPipeError, ConnectionResetError):
                return b"ended"
            return b"read for ever"

        assert await over(site, greedy, narrow=True) == b"ended"


def test_accounts_of_this_machine_have_shares_of_their_own_and_the_servers_own_account_always() -> None:
    connections = ConnectionCounts(replace(BOUNDS, share=2, spare_of_one=1, connections=4, spare=1))
    here, served = "127.0.0.1", [Admission.SERVED] * 2
    assert [connections.enter(here, 1001) for _ in range(4)] == [*served, Admission.SPARE, Admission.REFUSED]
    assert [connections.enter(here, 1002) for _ in range(3)] == [*served, Admission.REFUSED]
    assert connections.enter(here) is Admission.REFUSED
    own = [connections.enter(here, os.geteuid()) for _ in range(4)]
    assert own == [*served, Admission.SPARE, Admission.REFUSED]
    connections.leave(here, Admission.SERVED, os.geteuid())
    assert connections.enter(here, os.geteuid()) is Admission.SERVED
    for _ in range(2):
        connections.leave(here, Admission.SERVED, os.geteuid())
    connections.leave(here, Admission.SERVED, 1001)
    assert connections.enter(here, 1003) is Admission.SERVED


def test_a_proxy_has_no_share() -> None:
    connections = ConnectionCounts(replace(BOUNDS, share=1, spare_of_one=1, connections=4), ["10.0.0.0/8"])
    assert [connections.enter("192.0.2.1") for _ in range(3)] == [Admission.SERVED, Admission.SPARE, Admission.REFUSED]
    assert connections.enter("2001:db8::1") is Admission.SERVED
    assert connections.enter("2001:db8::2") is Admission.SPARE  # one network
    assert connections.enter("10.1.2.3") is Admission.SERVED
    assert connections.enter("::ffff:10.1.2.3") is Admission.SERVED
    assert connections.enter("10.1.2.3") is Admission.SPARE  # all have one bound together
    connections.leave("192.0.2.1", Admission.SERVED)
    assert connections.enter("192.0.2.1") is Admission.SERVED


async def test_large_bodies_of_all_callers_take_turns() -> None:
    turns, taken = Turns(), []

    async def take(whose: str) -> None:
        await turns.take(whose)
        taken.append(whose)

    async with anyio.create_task_group() as tasks:
        for whose in ("ada", "ada", "ada", "bob"):
            tasks.start_soon(take, whose)
    assert taken == ["ada", "ada", "bob", "ada"]


async def test_after_a_large_body_the_event_loop_rests_for_a_multiple_of_what_it_took() -> None:
    turns, held_s = Turns(), 0.05
    await turns.take("ada")
    since = time.perf_counter()
    while time.perf_counter() < since + held_s:
        pass  # as decoding does
    await turns.take("bob")
    assert time.perf_counter() - since >= (1 + REST) * held_s


@pytest.mark.parametrize("path", ["/mcp", "/v1/memories", "/v1/memories/search"])
async def test_a_large_body_takes_its_callers_turn_and_a_small_one_none(
    redis_url: str, keys: Keys, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    taken = []
    take = Turns.take

    async def noted(turns: Turns, whose: object) -> None:
        taken.append(whose)
        await take(turns, whose)

    monkeypatch.setattr(Turns, "take", noted)
    async with served(redis_url, keys) as site:
        for count in (0, LARGE_BYTES, LARGE_BYTES):
            body = b"[" + b" " * count + b"]"
            status, _ = await site.ask("POST", path, body, content_type="application/json", accept="application/json")
            assert status == 400
    assert len(taken) == 2
    assert None not in taken


def test_a_caller_has_half_of_the_room_for_bodies_that_the_others_leave() -> None:
    refused: list[str] = []
    bodies = Bodies(64, refused=lambda: refused.append("body"))
    for whose, most in (("ada", 32), ("bob", 16), ("cid", 8)):
        bodies.hold(whose, most)
        with pytest.raises(NoRoom, match="bytes of requests"):
            bodies.hold(whose, 1)
    bodies.let_go("ada", 32)
    bodies.hold("bob", 12)
    assert (bodies.held, len(refused)) == (36, 3)


@pytest.mark.parametrize("path", ["/mcp", "/v1/memories"])
async def test_endless_bodies_are_refused_beyond_the_room_and_give_it_back(
    redis_url: str, keys: Keys, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    bodies = Bodies(400_000)
    monkeypatch.setattr("engramq.gateway.metrics.Bodies", lambda **_: bodies)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n".encode()
    whole = head + b"connection: close\r\ncontent-length: 100000\r\n\r\n" + b"[" + b" " * 99_998 + b"]"
    async with served(redis_url, keys, replace(QUICK, body_s=BOUND_S)) as site:
        with Line(site.port) as line:
            line.socket.sendall(head + b"content-length: 4000000\r\n\r\n" + b" " * 150_000)  # and no more
            while bodies.held < 150_000:
                await anyio.lowlevel.checkpoint()
            answer = await over(site, sending(whole))
            refusal = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert (status_of(answer), b"retry-after: 1" in answer) == (503, True)
            assert (refusal["code"], refusal["retry_after_s"]) == ("overloaded", 1.0)
            assert bodies.held == 150_000
        while bodies.held:  # its client has gone
            await anyio.lowlevel.checkpoint()
        assert status_of(await over(site, sending(whole))) == 400
