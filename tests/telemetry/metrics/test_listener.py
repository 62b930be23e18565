"""The small server of a worker's metrics and health, met by clients that mean no good."""

import asyncio
import socket
from contextlib import AsyncExitStack

import httpx
import pytest

from engramq.telemetry.listener import CONNECTIONS_MAX, PageAnswer, ServedPage, serving

BOUND_S = 20.0

pytestmark = pytest.mark.timeout(60)


async def _figures() -> PageAnswer:
    return PageAnswer(200, b"engramq_ready 1\n")


async def _defect() -> PageAnswer:
    raise ValueError("secret")


LATE = PageAnswer(503, b"late")
PAGES = {
    "/metrics": ServedPage(read=_figures, bound_s=5, late=LATE),
    "/defect": ServedPage(read=_defect, bound_s=5, late=LATE),
}


async def _answered(port: int) -> int:
    """Return the status of a scrape, trying again while connections are refused."""
    async with httpx.AsyncClient(verify=False) as client, asyncio.timeout(BOUND_S):
        while True:
            try:
                return (await client.get(f"http://127.0.0.1:{port}/metrics")).status_code
            except httpx.TransportError:
                await asyncio.sleep(0)


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), BOUND_S)


@pytest.mark.parametrize("begun", [b"", b"GET /metrics HTTP/1.1\r\nx: "])
async def test_the_connection_that_has_asked_nothing_for_longest_makes_room(begun: bytes) -> None:
    async with AsyncExitStack() as held, serving("127.0.0.1", 0, PAGES, variable="PORT") as port:
        waiting = [held.enter_context(_connected(port)) for _ in range(CONNECTIONS_MAX)]
        for connection in waiting:
            connection.sendall(begun)
        async with httpx.AsyncClient(verify=False) as client:
            for path, status in (("/metrics", 200), ("/nothing", 404), ("/defect", 500)):
                assert (await client.get(f"http://127.0.0.1:{port}{path}")).status_code == status
        assert await asyncio.to_thread(waiting[0].recv, 1) == b""
        rest = b"1\r\n\r\n" if begun else b"GET /metrics HTTP/1.1\r\n\r\n"
        waiting[-1].sendall(rest)
        assert (await asyncio.to_thread(waiting[-1].recv, 99)).startswith(b"HTTP/1.0 200 ")


async def test_of_connections_that_wait_for_an_answer_there_is_a_bound() -> None:
    go_on, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> PageAnswer:
        waiting.release()
        await go_on.wait()
        return PageAnswer(200, b"")

    pages = {"/slow": ServedPage(read=slow, bound_s=BOUND_S, late=LATE), **PAGES}
    async with AsyncExitStack() as held, serving("127.0.0.1", 0, pages, variable="PORT") as port:
        asking = [held.enter_context(_connected(port)) for _ in range(CONNECTIONS_MAX)]
        async with asyncio.timeout(BOUND_S):
            for connection in asking:
                connection.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
                await waiting.acquire()
        with _connected(port) as one_too_many:
            assert await asyncio.to_thread(one_too_many.recv, 1) == b""
        go_on.set()
        for connection in asking:
            assert (await asyncio.to_thread(connection.recv, 99)).startswith(b"HTTP/1.0 200 ")
        assert await _answered(port) == 200


@pytest.mark.parametrize(("path", "status"), [("/metrics", 200), ("/nothing", 404), ("/defect", 500)])
async def test_the_head_of_a_page_is_that_of_the_page(path: str, status: int) -> None:
    async with serving("127.0.0.1", 0, PAGES, variable="PORT") as port:
        async with httpx.AsyncClient(verify=False) as client:
            head, page = [await client.request(method, f"http://127.0.0.1:{port}{path}") for method in ("HEAD", "GET")]
        with _connected(port) as bare:
            bare.sendall(f"HEAD {path} HTTP/1.1\r\n\r\n".encode())
            said = await asyncio.to_thread(bare.makefile("rb").read)
    assert (head.status_code, page.status_code) == (status, status)
    for name in ("content-length", "content-type"):
        assert head.headers[name] == page.headers[name]
    assert page.content
    assert "secret" not in page.text  # the text of a defect
    assert said.endswith(b"\r\n\r\n")


async def test_a_page_that_takes_too_long_is_late() -> None:
    async def endless() -> PageAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    pages = {"/endless": ServedPage(read=endless, bound_s=0.05, late=LATE)}
    async with serving("127.0.0.1", 0, pages, variable="PORT") as port, httpx.AsyncClient(verify=False) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/endless")).content == LATE.body


async def test_other_methods_are_refused_and_what_is_no_request_is_left() -> None:
    async with serving("127.0.0.1", 0, PAGES, variable="PORT") as port:
        async with httpx.AsyncClient(verify=False) as client:
            assert (await client.post(f"http://127.0.0.1:{port}/metrics")).status_code == 405
        with _connected(port) as endless:
            endless.sendall(b"x" * 100_000)
            assert await asyncio.to_thread(endless.recv, 1) == b""
        assert await _answered(port) == 200
