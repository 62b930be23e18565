"""Secrets and signatures, as Standard Webhooks has them (standardwebhooks.com, version 1).

A secret is derived, not kept: HMAC-SHA256 of the webhook's id under the installation's key. So a dump of the database
signs nothing, and nothing has to be encrypted.
"""

import base64
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from engramq.schemas.settings import Settings, SettingsError

KEY_FILE: Final = "webhooks-key"
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
LEAST_KEY_CHARS: Final = 32


class SigningKey:
    """The key of an installation. `id` tells it from others and says nothing of it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.id: Final = hashlib.sha256(b"engramq webhooks key id\0" + key).hexdigest()[:16]

    def secret(self, webhook_id: UUID) -> str:
        """Return what the receiver of a webhook checks signatures with."""
        return SECRET_PREFIX + base64.b64encode(self._derived(webhook_id)).decode()

    def headers(self, webhook_id: UUID, message_id: UUID, at_s: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of a message: its id, the time of this try in seconds, and the signature of all three."""
        signed = f"{message_id}.{at_s}.".encode() + body
        signature = base64.b64encode(hmac.digest(self._derived(webhook_id), signed, "sha256")).decode()
        return {
            "webhook-id": str(message_id),
            "webhook-timestamp": str(at_s),
            "webhook-signature": f"v1,{signature}",
        }

    def _derived(self, webhook_id: UUID) -> bytes:
        return hmac.digest(self._key, b"engramq webhook secret\0" + webhook_id.bytes, "sha256")


def signing_key(settings: Settings) -> SigningKey:
    """Return the key that ENGRAMQ_WEBHOOKS_KEY names, else that of the home, made at its first use.

    Raises SettingsError for a key that is too short, or that others could have read.
    """
    if settings.webhooks_key:
        if len(settings.webhooks_key) < LEAST_KEY_CHARS:
            raise SettingsError(f"ENGRAMQ_WEBHOOKS_KEY: it has fewer than {LEAST_KEY_CHARS} characters.")
        return SigningKey(settings.webhooks_key.encode())
    try:
        return SigningKey(_home_key(settings.home))
    except OSError as problem:
        raise SettingsError(f"ENGRAMQ_WEBHOOKS_KEY: it is not set, and the home keeps no key: {problem}.") from None


def _home_key(home: Path) -> bytes:
    place, fresh = home / KEY_FILE, home / f"{KEY_FILE}.{os.getpid()}"
    if not place.exists():
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        with suppress(FileExistsError):  # another process was faster
            place.hardlink_to(fresh)
        fresh.unlink()
    found = place.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{place} is not a file that this user alone can read")
    return place.read_bytes().strip()
