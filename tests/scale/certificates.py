"""Certificates of an authority of the test's own, and a door that speaks TLS in front of a server's socket."""

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CHUNK = 65_536
SSL_REQUEST = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")  # of PostgreSQL's protocol, "SSLRequest"


class Pair(NamedTuple):
    """The files of a certificate and of its key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs certificates; its own is in `certificate`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usages = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        own = self._begun(self._issuer, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        signed = own.add_extension(usages, True).sign(self._key, hashes.SHA256())
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, days: int = 2) -> Pair:
        """Sign a certificate of a host name or of 127.0.0.1; `days` below 0: one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternative: x509.GeneralName = x509.DNSName(name)
        with contextlib.suppress(ValueError):
            alternative = x509.IPAddress(ipaddress.ip_address(name))
        begun = self._begun(subject, key, days).add_extension(x509.SubjectAlternativeName([alternative]), False)
        signed = begun.sign(self._key, hashes.SHA256())
        made = Pair(self._folder / f"{self._name}-{name}.pem", self._folder / f"{self._name}-{name}.key")
        made.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        made.key.write_bytes(private)
        made.key.chmod(0o600)
        return made

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 2) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(subject_name=subject, issuer_name=self._issuer, public_key=key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=9))
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, False).not_valid_after(now + datetime.timedelta(days=days))


def context_of(shown: Pair, clients: Path | None = None) -> ssl.SSLContext:
    """Return what a server shows, and with `clients` the authority whose certificates its clients must have."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*shown)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return context


class TlsDoor:
    """Takes TLS on a port of the loopback address and passes on to a socket, as stunnel or HAProxy do; `async with`.

    `postgresql`: begin as PostgreSQL does, where a client asks in plain bytes whether it may speak TLS.
    """

    def __init__(self, target: Path, context: ssl.SSLContext, *, postgresql: bool = False) -> None:
        self._target, self._context, self._postgresql = target, context, postgresql
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "TlsDoor":
        directly = None if self._postgresql else self._context
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK, ssl=directly)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if self._postgresql:
                assert await reader.readexactly(8) == SSL_REQUEST, "a client that speaks no TLS"
                writer.write(b"S")
                await writer.start_tls(self._context)
            far_reader, far_writer = await asyncio.open_unix_connection(str(self._target), limit=CHUNK)
            await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
