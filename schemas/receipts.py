"""The chain of the audit log, and receipts that anybody can check offline. Pure: hashes alone, no keys.

Each entry of a namespace has a place in a chain. Its hash follows from the hash of the place before and from the entry,
so that an entry that was changed, taken out or moved breaks the chain there. Somebody's words in an entry may have to
be erased: the hash takes them as a digest with a salt, and without the salt nobody can guess the words.
"""

import hashlib
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

START: Final = bytes(32)  # what stands before the first place
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class ChainedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An entry of the audit log at its place in the chain.

    `body` is the JSON text of old, new and reason, and `salt` what its digest was made with; both are null once words
    of it were erased, and for who may not read it. `owner`: whose what it names was, where that was private.
    `brought_at`, `brought_from`: when an export of which namespace brought it; whether it is true nobody here knows.
    `previous` and `hash` are those of the chain, in hex.
    """

    id: int
    at: str
    actor: str
    action: str
    target_id: str | None
    command_id: str | None
    body: str | None
    salt: str | None
    digest: str
    place: int
    previous: str
    hash: str
    owner: str | None = None
    brought_at: str | None = None
    brought_from: str | None = None

    def problem(self) -> str | None:
        """Return what contradicts the hashes of this entry, as a sentence; None when nothing does.

        Raises ValueError for what should be hexadecimal and is not.
        """
        if (self.body is None) is not (self.salt is None):
            return "its words have no salt, or a salt no words"
        words = None if self.body is None or self.salt is None else digest_entry(bytes.fromhex(self.salt), self.body)
        if words is not None and words.hex() != self.digest:
            return "its words were changed"
        return None if self.hash_now() == self.hash else "its facts or its place were changed"

    def hash_now(self) -> str:
        """Return the hash that follows from the entry as it stands here."""
        facts = (self.place, self.id, self.at, self.actor, self.action, self.target_id, self.command_id, self.digest)
        whose = () if self.owner is None else (self.owner,)
        is_own = self.brought_at is None and self.brought_from is None
        brought = () if is_own else ({"at": self.brought_at, "from": self.brought_from},)
        return hashlib.sha256(bytes.fromhex(self.previous) + _encode((*facts, *whose, *brought))).hexdigest()


class SignedReceipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The effect of one command on a namespace, or the changes of one thing, signed by the installation.

    `omitted`: how many more entries there are. `public_key` and `signature` are Ed25519's, in hex.
    """

    engramq_receipt: Annotated[int, Meta(ge=1, le=1)] = 1
    namespace: str
    made_at: str
    proven: Annotated[list[ChainedEntry], Meta(min_length=1)]
    omitted: int = 0
    public_key: str
    signature: str = ""

    def signed_bytes(self) -> bytes:
        """Return what the signature is of: all of it but the signature itself."""
        return _encode(msgspec.structs.replace(self, signature=""))


def digest_entry(salt: bytes, body: str) -> bytes:
    """Return the digest of what an entry says."""
    return hashlib.sha256(salt + body.encode()).digest()


def exact_time(moment: datetime) -> str:
    """Return a time as hashes have it: in UTC, with six digits of a second."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
