"""An identity provider: keys, tokens signed with them, and a key server that can go away."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER = "https://login.example.org/"
AUDIENCE = "https://memory.example.org/mcp"


def jwt_setting(**parts: str) -> str:
    """Return ENGRAMQ_JWT for this issuer and audience, with these parts too, or instead; "" leaves one out."""
    given = {"issuer": ISSUER, "audience": AUDIENCE, **parts}
    return ", ".join(f"{part}={value}" for part, value in given.items() if value)


PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def key_for(algorithm: str, name: str = "ours") -> PrivateKey:
    """Return a private key that signs by this algorithm, for each `name` another one."""
    return _key(algorithm, name)


@cache
def _key(algorithm: str, _name: str) -> PrivateKey:
    match algorithm[:2]:
        case "RS" | "PS":
            return rsa.generate_private_key(65537, 2048)
        case "ES":
            curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
            return ec.generate_private_key(curves[algorithm])
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def public_pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public_jwk(algorithm: str, kid: str | None, name: str = "ours", **more: Any) -> dict[str, Any]:
    described = jwt.get_algorithm_by_name(algorithm).to_jwk(key_for(algorithm, name).public_key(), as_dict=True)
    return {**described, **({} if kid is None else {"kid": kid}), **more}


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a good token; one that is changed to None is left out."""
    now = int(time.time())
    said = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 300, "iat": now, "namespace": "ns",
        "scope": "openid read write", **changes,
    }  # fmt: skip
    return {name: value for name, value in said.items() if value is not None}


def signed(
    algorithm: str = "RS256", *, kid: str | None = "k1", name: str = "ours", said: dict[str, Any] | None = None
) -> str:
    headers = None if kid is None else {"kid": kid}
    return jwt.encode(said or claims(), key_for(algorithm, name), algorithm, headers=headers)


def part(value: Any) -> str:
    """Return a part of a token, of anything."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class KeyServer:
    """Serves `keys` (or `answer`, raw) over HTTP, counts what it served; `silent`: it accepts and says nothing."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.answer: bytes | None = None
        self.silent = False
        self.served = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.served += 1
            if self.silent:
                await reader.read()
            body = json.dumps({"keys": self.keys}).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            writer.write(self.answer or (head + "connection: close\r\n\r\n").encode() + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def key_server(*keys: dict[str, Any]) -> AsyncIterator[KeyServer]:
    """Run a key server for as long as the block lasts."""
    made = KeyServer(*keys)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    try:
        yield made
    finally:
        server.close()
