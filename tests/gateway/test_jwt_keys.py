"""Where the issuer's keys come from: a file, or an address that may be slow, wrong or away."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from engramq.gateway.identity import jwt as jwt_identity
from engramq.gateway.identity.jwt import (
    BELIEVED_S,
    REFETCH_S,
    REFRESH_S,
    RETRY_S,
    FileKey,
    JwtAuthenticator,
    PublishedKeys,
    jwt_authenticator,
    keys_in,
)
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.settings import SettingsError
from tests.gateway.issuer import KeyServer, key_for, key_server, part, public_jwk, public_pem, signed
from tests.gateway.test_jwt import settings_with, whose

# Keys in files.


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "ES384", "EdDSA"])
async def test_a_key_file_may_hold_each_kind_of_key(tmp_path: Path, algorithm: str) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(public_pem(key_for(algorithm)))
    changed = settings_with(keys=str(path))
    assert await whose(jwt_authenticator(changed), signed(algorithm)) is not None
    assert await whose(jwt_authenticator(changed), signed(algorithm, kid=None)) is not None


def unfit_files() -> Mapping[str, bytes | None]:
    private = key_for("RS256").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    weak = public_pem(rsa.generate_private_key(65537, 1024))
    odd = public_pem(ec.generate_private_key(ec.SECP256K1()))
    return {"missing": None, "empty": b"", "text": b"key", "private": private, "weak": weak, "odd curve": odd}


@pytest.mark.parametrize("content", unfit_files().values(), ids=unfit_files())
def test_a_file_without_a_usable_public_key_is_refused_at_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "key.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match="ENGRAMQ_JWT: ") as refusal:
        FileKey(path)
    assert "PRIVATE" not in str(refusal.value)


# Keys that are published.


class Site:
    """A key server, what looks at it, and the clock of the latter."""

    def __init__(self, server: KeyServer) -> None:
        self.server = server
        self.now = 1_000.0
        self.keys = PublishedKeys(server.url, lambda: self.now)
        self.authenticator = JwtAuthenticator(settings_with(), self.keys)

    async def accepts(self, **how: Any) -> bool:
        return await whose(self.authenticator, signed(**how)) is not None

    def go_away(self) -> None:
        self.server.answer = b"HTTP/1.1 500 Oh no\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@asynccontextmanager
async def published(*listed: dict[str, Any]) -> AsyncIterator[Site]:
    async with key_server(*listed) as server:
        yield Site(server)


async def test_published_keys_are_fetched_once_and_kept() -> None:
    listed = [public_jwk("RS256", "k1", alg="RS256", use="sig"), public_jwk("ES256", "k2"), public_jwk("EdDSA", "k3")]
    async with published(*listed) as site:
        assert await site.accepts()
        assert await site.accepts(algorithm="ES256", kid="k2")
        assert await site.accepts(algorithm="EdDSA", kid="k3")
        assert not await site.accepts(kid="k1", name="theirs")
        assert site.server.served == 1


async def test_many_who_come_first_fetch_once() -> None:
    async with published(public_jwk("RS256", "k1")) as site:
        assert all(await asyncio.gather(*[site.accepts() for _ in range(20)]))
        assert site.server.served == 1


@pytest.mark.promise("SE-1")
async def test_an_unknown_key_is_looked_for_again_but_not_often() -> None:
    async with published(public_jwk("RS256", "k1")) as site:
        assert await site.accepts()
        assert not await site.accepts(kid="k2", name="next")
        assert site.server.served == 1
        site.server.keys.append(public_jwk("RS256", "k2", "next"))
        site.now += REFETCH_S
        assert await site.accepts(kid="k2", name="next")
        for number in range(20):
            assert not await site.accepts(kid=f"unknown {number}")
        assert site.server.served == 2


async def test_a_key_that_is_withdrawn_is_no_longer_believed_after_a_refresh() -> None:
    async with published(public_jwk("RS256", "k1"), public_jwk("RS256", "k2", "next")) as site:
        assert await site.accepts()
        site.server.keys = site.server.keys[1:]
        site.now += REFRESH_S
        assert await site.accepts()  # what is known goes on while the keys are fetched in the background
        async with asyncio.timeout(10):
            while await site.accepts():
                await asyncio.sleep(0.01)
        assert site.server.served == 2


@pytest.mark.promise("SE-1")
async def test_a_key_server_that_is_away_harms_nobody_whose_key_is_known() -> None:
    async with published(public_jwk("RS256", "k1")) as site:
        assert await site.accepts()
        site.go_away()
        site.now += REFRESH_S
        for _ in range(3):
            assert await site.accepts()
        site.now += RETRY_S
        with pytest.raises(EngramqError) as refusal:
            await site.accepts(kid="k2", name="next")
        assert refusal.value.fault.code is FaultCode.UNAVAILABLE
        served = site.server.served
        with pytest.raises(EngramqError):
            await site.accepts(kid="k2", name="next")
        assert site.server.served == served  # not at every request
        assert await site.accepts()
        site.now += BELIEVED_S
        with pytest.raises(EngramqError):
            await site.accepts()
        site.server.answer = None
        site.now += RETRY_S
        assert await site.accepts()


async def test_without_any_keys_nobody_can_say() -> None:
    async with published() as site:
        with pytest.raises(EngramqError):
            await site.accepts()
    async with published(public_jwk("RS256", "k1")) as site:
        site.go_away()
        with pytest.raises(EngramqError) as refusal:
            await site.accepts()
        assert refusal.value.fault.code is FaultCode.UNAVAILABLE


async def test_a_silent_key_server_is_waited_for_no_longer_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_identity, "FETCH_S", 0.3)
    async with published(public_jwk("RS256", "k1")) as site:
        site.server.silent = True
        with pytest.raises(EngramqError):
            await site.accepts()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b" " * (jwt_identity.KEYS_BYTES + 1) + b'{"keys": []}',
        b"no HTTP at all",
    ],
)
async def test_an_answer_that_is_no_key_set_is_as_none(answer: bytes) -> None:
    async with published(public_jwk("RS256", "k1")) as site:
        site.server.answer = answer
        with pytest.raises(EngramqError):
            await site.accepts()


@pytest.mark.parametrize(
    "odd",
    [
        {"kty": "oct", "k": part(b"secret" * 8), "kid": "k1"},
        public_jwk("RS256", "k1", use="enc"),
        public_jwk("RS256", "k1", key_ops=["sign"]),
        public_jwk("RS256", "k1", alg="RS512"),
        public_jwk("RS256", "k1", n="AQAB"),
        public_jwk("ES256", "k1", crv="secp256k1"),
        {"kty": "RSA", "kid": "k1"},
        {"kid": ["k1"]},
        jwt.get_algorithm_by_name("RS256").to_jwk(key_for("RS256"), as_dict=True),  # a private one
        "k1",
        None,
    ],
)
async def test_keys_for_anything_else_are_left_out(odd: Any) -> None:
    async with published(odd, public_jwk("ES256", "k2")) as site:
        assert not await site.accepts()
        assert await site.accepts(algorithm="ES256", kid="k2")


async def test_a_token_that_names_no_key_must_leave_no_choice() -> None:
    async with published(public_jwk("RS256", "k1"), public_jwk("ES256", "k2")) as site:
        assert await site.accepts(kid=None)
        site.server.keys.append(public_jwk("RS256", "k3", "next"))
        site.now += REFETCH_S
        assert not await site.accepts(kid="k4")  # fetches again
        assert not await site.accepts(kid=None)
        assert await site.accepts(kid="k1")


def test_a_key_set_is_bounded() -> None:
    many = [public_jwk("ES256", f"k{number}") for number in range(jwt_identity.KEYS_MAX + 5)]
    assert len(keys_in(json.dumps({"keys": many}).encode())) == jwt_identity.KEYS_MAX
