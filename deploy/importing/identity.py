"""By what a row of an import is known again: what it says, for good."""

import hashlib
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import ImportRecord, NewMemory
from engramq.schemas.occurrences import Occurrences

_DEFAULTS: Final[dict[str, Any]] = {
    field.name: field.default for field in msgspec.structs.fields(NewMemory) if not field.required
}


class Identities:
    """Tells the rows of one file apart: equal ones by how many of them stand before."""

    def __init__(self) -> None:
        self._said = Occurrences()

    def of(self, namespace: str, record: ImportRecord) -> bytes:
        """Return the identity of the next row.

        An external id is one by itself. Else it is the digest of namespace and record, whatever the order of its keys
        and whether it writes defaults out, and for a record that was there before of its number too.
        """
        if record.external_id is not UNSET:
            return digest_of("external_id", namespace, record.external_id)
        said = digest_of("record", namespace, canonical(record))
        number = self._said.count(said)
        return said if number == 0 else digest_of("again", said.hex(), str(number))


def canonical(record: ImportRecord) -> str:
    """Return what a record says, in one form for all that say the same."""
    said = {
        name: value for name, value in record.given.items() if value != _DEFAULTS.get(name) and value not in ((), {})
    }
    return msgspec.json.encode(said, order="deterministic").decode()


def digest_of(*texts: str) -> bytes:
    """Return a digest of texts, which differs wherever one of them does."""
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=limits.IDENTITY_BYTES).digest()
