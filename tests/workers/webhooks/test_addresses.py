"""Webhooks go to addresses that the whole world reaches, and to those that were judged."""

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import SettingsError, read_settings
from engramq.workers.webhooks.sending import (
    NotAllowed,
    ResolveHost,
    Sender,
    SigningKey,
    WebhookMessage,
    address_for,
    check_url,
    is_public,
    signing_key,
)
from tests.architecture.source import ROOT
from tests.workers.webhooks.receiver import SILENCE, receiving

PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::10.0.0.1", "2002:7f00:1::", "2001:db8::1",
    # Security finding 15.
    "::127.0.0.1", "64:ff9b:1::10.0.0.1", "::ffff:0:10.0.0.1", "2a00::5efe:10.0.0.1", "2a00::200:5efe:10.0.0.1",
    "fe80::5efe:10.0.0.1", "fec0::1", "192.0.0.192", "168.63.129.16", "192.88.99.1", "5f00::1", "3fff::1",
]  # fmt: skip
PUBLIC = [
    "93.184.216.34",
    "2606:2800:220:1:248:1893:25c8:1946",
    "::ffff:93.184.216.34",
    "64:ff9b::93.184.216.34",
    "2a00::5efe:93.184.216.34",
]

PAGE = ROOT / "docs" / "webhooks.md"


def finding(*addresses: str) -> ResolveHost:
    async def look(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return look


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_a_private_network_is_none_to_go_to(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_that_the_world_reaches_is(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


async def test_a_name_with_one_private_address_is_refused_as_a_whole() -> None:
    url = "https://receiver.example/hook"
    assert await address_for(url, private=False, look=finding(PUBLIC[0], PUBLIC[1])) == PUBLIC[0]
    for found in (("10.0.0.1",), (PUBLIC[0], "169.254.169.254"), ("fe80::1%eth0",)):
        with pytest.raises(NotAllowed):
            await address_for(url, private=False, look=finding(*found))
    assert await address_for(url, private=True, look=finding("10.0.0.1")) == "10.0.0.1"
    with pytest.raises(OSError, match="no address"):
        await address_for(url, private=False, look=finding())


@pytest.mark.parametrize(
    "url",
    [
        "http://receiver.example/", "ftp://receiver.example/", "https://", "receiver.example", "https://127.0.0.1/",
        "https://[::1]/", "https://user:pw@receiver.example/", "https://receiver.example/#x", "https://[::1",
        "https://receiver.example:99999/", "https://receiver.example/a b", "https://bücher.example/",
        "https://receiver.example/\n", "https://receiver.example/" + "x" * 2_000,
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_told_is_refused(url: str) -> None:
    with pytest.raises(EngramqError) as refused:
        check_url(url, private=False)
    assert refused.value.fault.field == "url"


def test_private_addresses_and_http_are_allowed_where_that_is_set() -> None:
    for url in ("http://127.0.0.1:9000/hook", "https://[::1]/"):
        assert check_url(url, private=True) == url
    assert check_url("https://receiver.example/hook?x=1", private=False)


def message(url: str) -> WebhookMessage:
    return WebhookMessage(id=uuid4(), webhook_id=uuid4(), url=url, event="webhook.test", at=datetime.now(UTC), data={})


async def test_the_connection_goes_to_the_address_that_was_judged_under_the_name_of_the_url() -> None:
    async with receiving() as receiver, Sender(SigningKey(b"k"), private=True, look=finding("127.0.0.1")) as sender:
        url = f"http://receiver.invalid:{receiver.port}/hook?x=1"
        assert await sender.tell(message(url)) is None
    (told,) = receiver.told
    assert (told.headers["host"], told.path) == (f"receiver.invalid:{receiver.port}", "/hook?x=1")


async def test_the_check_that_the_page_shows_takes_what_is_sent_and_nothing_else() -> None:
    shown: dict[str, Any] = {}
    exec(PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], shown)
    key, one = SigningKey(b"k"), message("")
    async with receiving() as receiver, Sender(key, private=True) as sender:
        one = replace(one, url=receiver.url())
        assert await sender.tell(one) is None
    (told,) = receiver.told
    secret = key.secret(one.webhook_id)
    assert shown["is_genuine"](secret, told.headers, told.body)
    assert not shown["is_genuine"](secret, told.headers, told.body + b" ")
    assert not shown["is_genuine"](key.secret(uuid4()), told.headers, told.body)


async def test_a_private_address_behind_a_name_is_not_told() -> None:
    async with receiving() as receiver, Sender(SigningKey(b"k"), private=False, look=finding("127.0.0.1")) as sender:
        problem = await sender.tell(message(f"https://receiver.invalid:{receiver.port}/hook"))
    assert (problem, receiver.told) == ("the name has an address of a private network", [])


async def test_a_try_has_a_bound() -> None:
    look = finding("127.0.0.1")
    async with receiving(SILENCE) as receiver, Sender(SigningKey(b"k"), private=True, look=look, try_s=0.3) as sender:
        problem = await sender.tell(message(receiver.url()))
    assert problem is not None
    assert "no answer within 0.3 s" in problem or "Timeout" in problem


def test_a_key_is_kept_by_the_home_or_set_and_is_long_enough(tmp_path: Path) -> None:
    webhook_id = uuid4()
    first, again = [signing_key(read_settings({"ENGRAMQ_HOME": str(tmp_path)})) for _ in range(2)]
    assert (first.id, first.secret(webhook_id)) == (again.id, again.secret(webhook_id))
    assert first.secret(webhook_id) != first.secret(uuid4())
    own = signing_key(read_settings({"ENGRAMQ_WEBHOOKS_KEY": "k" * 32}))
    assert own.id != first.id
    with pytest.raises(SettingsError, match="ENGRAMQ_WEBHOOKS_KEY"):
        signing_key(read_settings({"ENGRAMQ_WEBHOOKS_KEY": "short"}))
    (tmp_path / "webhooks-key").chmod(0o644)
    with pytest.raises(SettingsError, match="this user alone can read"):
        signing_key(read_settings({"ENGRAMQ_HOME": str(tmp_path)}))
    with pytest.raises(SettingsError, match="not set"):
        signing_key(read_settings({"ENGRAMQ_HOME": "/nowhere"}))


def test_a_key_of_any_bytes_is_used_and_an_empty_one_is_none(tmp_path: Path) -> None:
    place, kept = tmp_path / "webhooks-key", read_settings({"ENGRAMQ_HOME": str(tmp_path)})
    place.touch(0o600)
    with pytest.raises(SettingsError, match="is empty: delete it"):
        signing_key(kept)
    place.write_bytes(bytes(range(128, 160)))
    webhook_id = uuid4()
    assert signing_key(kept).secret(webhook_id) == signing_key(kept).secret(webhook_id)


def test_the_homes_key_is_no_link_to_what_somebody_else_wrote(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("k" * 32)
    (tmp_path / "theirs").chmod(0o600)
    (tmp_path / "webhooks-key").symlink_to(tmp_path / "theirs")
    with pytest.raises(SettingsError, match="this user alone can read"):
        signing_key(read_settings({"ENGRAMQ_HOME": str(tmp_path)}))
