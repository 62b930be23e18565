"""Say whose private rows a transaction sees: `app.owner_first` and `app.owner_last` of the policies in schema.sql.

A memory that is private has an owner: a principal, by its name and trust, since one name, trusted and untrusted, is two
principals. A range says who sees it, so that an index serves one principal as well as everything.
"""

from typing import Final, NamedTuple, Self

from engramq.schemas.envelope import Principal, PrincipalId
from engramq.schemas.limits import NAME_CHARS
from engramq.schemas.vocabulary import APART, SYSTEM_PRINCIPAL, Partition

_UNTRUSTED: Final = f"{APART}{Partition.UNTRUSTED}"  # behind the name of an untrusted owner
_BEYOND: Final = "\U0010ffff" * (NAME_CHARS + 1)  # after every owner, by their bytes: no name is as long


class Viewer(NamedTuple):
    """Sees, besides shared rows, the rows of the owners from the first to the last."""

    owner_first: str
    owner_last: str

    @classmethod
    def of(cls, principal: Principal | PrincipalId) -> "Viewer":
        """Return the one who sees what is a principal's own, or theirs for whom it acts.

        Engramq itself sees everything. A name that no door lets in owns nothing.
        """
        name, untrusted = principal.name, principal.untrusted
        if isinstance(principal, Principal):
            if name == SYSTEM_PRINCIPAL and not untrusted:
                return EVERYTHING
            if principal.acts_for:
                name, untrusted = principal.acts_for, False
        owner = "" if APART in name or "\0" in name else name + _UNTRUSTED if untrusted else name
        return Viewer(owner, owner)

    @classmethod
    def owning(cls, owner: str | None) -> Self:
        """Return the one who sees what has this owner, as rows have it; None: nothing that is private."""
        return cls(owner or "", owner or "")

    @property
    def owner(self) -> str | None:
        """The owner of what it keeps to itself, as rows have it; None where it is no principal."""
        return self.owner_first if self.owner_first and self.owner_first == self.owner_last else None


def principal_of(owner: str) -> PrincipalId:
    """Return the principal that an owner is, as rows have it."""
    name = owner.removesuffix(_UNTRUSTED)
    return PrincipalId(name, untrusted=name != owner)


PUBLIC: Final = Viewer.owning(None)  # sees what everybody does
EVERYTHING: Final = Viewer("", _BEYOND)  # for work that engramq does for all: nobody is shown what it reads
