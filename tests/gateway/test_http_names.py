"""What a Host and an Origin may be behind a proxy, whom it speaks for, and settings that would make no sense."""

import json
from collections.abc import Hashable
from typing import Any

import pytest

from engramq.gateway.identity import bearer
from engramq.gateway.limits import FailureLimit
from engramq.schemas.keys import Keys
from engramq.schemas.settings import SettingsError, read_settings
from engramq.schemas.vocabulary import GUARDS
from tests.gateway.test_http import serve
from tests.gateway.test_http_identity import METADATA, OPEN, guarded

# Names and origins behind a proxy.


@pytest.mark.promise("SE-2", "SE-3")
async def test_behind_a_proxy_the_public_name_counts(redis_url: str, keys: Keys) -> None:
    public = {"public_url": "https://Memory.example.org:443, engramq.internal, pod-7"}
    async with guarded(redis_url, keys, host="0.0.0.0", **public) as (site, _):
        for host in ("memory.example.org", "MEMORY.example.org:443", "engramq.internal:8765", "pod-7", "localhost"):
            assert (await site.ask("GET", "/healthz", host=host))[0] == 200, host
        for host in ("0.0.0.0", "example.org", "evil.memory.example.org", "engramq.internal.evil.example", "10.0.0.1"):
            for path in ("/mcp", *OPEN):
                assert (await site.ask("GET", path, host=host))[0] == 421, (host, path)
        status, headers, _ = await site.exchange("POST", "/mcp", host="pod-7")
        assert status == 401
        metadata = "https://memory.example.org/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{metadata}"' in headers["www-authenticate"]
        _, answer = await site.ask("GET", METADATA[0], host="pod-7")
        assert json.loads(answer)["resource"] == "https://memory.example.org/mcp"


@pytest.mark.promise("SE-2")
async def test_only_listed_origins_may_call_and_read(redis_url: str, keys: Keys) -> None:
    listed = {"public_url": "https://memory.example.org, https://app.example.org:8443"}
    async with guarded(redis_url, keys, **listed) as (site, _):
        for origin in ("https://app.example.org:8443", "https://memory.example.org", "http://localhost:6274"):
            assert (await site.ask("GET", "/healthz", origin=origin))[0] == 200, origin
        for origin in (
            "https://app.example.org",
            "http://app.example.org:8443",
            "https://app.example.org:8443.evil.example",
            "http://memory.example.org",
            "https://memory.example.org:8443",
            "null",
        ):
            for path in ("/mcp", *OPEN):
                assert (await site.ask("GET", path, origin=origin))[0] == 403, (origin, path)
        asked: dict[str, Any] = {
            "access_control_request_method": "POST",
            "access_control_request_headers": "authorization",
        }
        status, headers, _ = await site.exchange("OPTIONS", "/mcp", origin="https://app.example.org:8443", **asked)
        assert (status, headers["access-control-allow-origin"]) == (200, "https://app.example.org:8443")
        status, headers, _ = await site.exchange("POST", "/mcp", origin="https://app.example.org:8443")
        assert (status, headers["access-control-allow-origin"]) == (401, "https://app.example.org:8443")
        for origin in ("https://memory.example.org", "http://localhost:6274"):  # may call, may not read
            _, headers, _ = await site.exchange("OPTIONS", "/mcp", origin=origin, **asked)
            assert "access-control-allow-origin" not in headers, origin


async def test_only_trusted_proxies_say_where_a_request_comes_from(
    redis_url: str, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Hashable] = []

    class Noting(FailureLimit):
        def note(self, who: Hashable) -> None:
            seen.append(who)

    monkeypatch.setattr(bearer, "FailureLimit", Noting)
    for proxies in ("", "10.0.0.0/8", "127.0.0.0/8"):
        async with guarded(redis_url, Keys(keys.prefix + proxies[:2]), trusted_proxies=proxies) as (site, _):
            forwarded: dict[str, Any] = {"x_forwarded_for": "203.0.113.9", "x_forwarded_proto": "https"}
            _, headers, _ = await site.exchange("POST", "/mcp", authorization="Bearer x", **forwarded)
            scheme = "https" if proxies.startswith("127") else "http"
            assert f'resource_metadata="{scheme}://' in headers["www-authenticate"], proxies
    assert seen == ["127.0.0.1", "127.0.0.1", "203.0.113.9"]


def test_settings_that_cannot_be_used_are_refused_by_name() -> None:
    unusable = [
        ("public_url", "memory.example.org:8765"), ("public_url", "https://memory.example.org/path"),
        ("public_url", "https://user@memory.example.org"), ("public_url", "https://memory.example.org:99999"),
        ("public_url", "https://memory.example.org:0"), ("public_url", "https://"),
        ("public_url", "memory.example.org, https://memory.example.org"),
        ("public_url", "https://memory.example.org, memory.example.org:443"), ("public_url", "*"),
        ("public_url", "https://memory.example.org, *"),
        ("public_url", "https://memory.example.org, https://app.example.org/x"),
        ("trusted_proxies", "proxy.example.org"), ("trusted_proxies", "10.0.0.1/8"), ("jwt", "keys=key.pem"),
        ("jwt", "keys=file:///etc/passwd"), ("quotas", "principal_calls_per_second=-1"),
    ]  # fmt: skip
    assert [case for case in unusable if not is_refused(*case)] == []


def is_refused(field: str, value: str) -> bool:
    """Return whether a setting is refused, and by its name."""
    variable = f"ENGRAMQ_{field.upper()}"
    try:
        read_settings({variable: value})
    except SettingsError as refusal:
        return variable in str(refusal)
    return False


@pytest.mark.parametrize("auth", ["none", "token"])
async def test_no_answer_can_be_framed_embedded_or_taken_for_another_kind(
    redis_url: str, keys: Keys, auth: str
) -> None:
    """Security finding 11: an object of another site's page loaded where a node exists, and failed where none does."""
    paths = (*OPEN, "/metrics", "/mcp", "/nothing", "/v1/stats", "/v1/nothing", "/ui", "/ui/x")
    asked: list[dict[str, Any]] = [{}, {"host": "evil.example"}, {"origin": "http://evil.example"}]
    async with serve(redis_url, keys, auth=auth) as (site, _):
        answers = [await site.exchange("GET", path, **headers) for path in paths for headers in asked]
        answers.append(await site.exchange("BREW", "/healthz"))
        answers += [await site.talk(b"nonsense\r\n\r\n"), await site.exchange("GET", "/healthz", x="a" * 70_000)]
    assert {status for status, *_ in answers} >= {200, 400, 403, 421, 431}
    for status, headers, _ in answers:
        assert {name: headers.get(name) for name, _ in GUARDS} == dict(GUARDS), (status, headers)


@pytest.mark.promise("SE-2")
async def test_no_page_of_another_site_has_its_browser_ask_by_an_image_or_a_frame(redis_url: str, keys: Keys) -> None:
    """Security finding 11: browsers name no Origin with these."""
    foreign: dict[str, Any] = {"sec_fetch_site": "cross-site"}
    listed = {"public_url": "https://memory.example.org, https://app.example.org"}
    async with guarded(redis_url, keys, **listed) as (site, _):
        for path in ("/ui/memories?q=x", "/v1/graph/nodes?name=x", "/mcp", *OPEN):
            for mode, dest in (("no-cors", "image"), ("navigate", "object"), ("navigate", "iframe")):
                asked: dict[str, Any] = {**foreign, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
                assert (await site.ask("GET", path, **asked))[0] == 403, (path, mode, dest)
        followed = {**foreign, "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
        assert (await site.ask("GET", "/healthz", **followed))[0] == 403
        assert (await site.ask("GET", "/ui", **followed))[0] != 403
        assert (await site.ask("GET", "/healthz", origin="https://app.example.org", **foreign))[0] == 200
        assert (await site.ask("GET", "/healthz", sec_fetch_site="same-origin"))[0] == 200
