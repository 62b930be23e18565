"""The whole language: every command and every reply, with the one union of each that travels.

Both follow from the classes in the files of the areas. To add a file, import it here and everything in it counts.
"""

from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union

from engramq.schemas.commands import base
from engramq.schemas.commands.access import *
from engramq.schemas.commands.base import *
from engramq.schemas.commands.bulk import *
from engramq.schemas.commands.consent import *
from engramq.schemas.commands.duplicates import *
from engramq.schemas.commands.graph import *
from engramq.schemas.commands.links import *
from engramq.schemas.commands.memories import *
from engramq.schemas.commands.system import *
from engramq.schemas.commands.tenants import *
from engramq.schemas.commands.trust import *
from engramq.schemas.commands.undo import *
from engramq.schemas.commands.walks import *


def _subclasses(cls: type[Any]) -> list[type[Any]]:
    """Return all classes below this one, but for the shared ones of base.py."""
    below: list[type[Any]] = []
    for subclass in cls.__subclasses__():
        below += ([] if subclass.__module__ == base.__name__ else [subclass]) + _subclasses(subclass)
    return below


COMMANDS: Final[tuple[type[base.Command], ...]] = tuple(_subclasses(base.Command))
REPLIES: Final[tuple[type[base.Reply], ...]] = tuple(_subclasses(base.Reply))

if TYPE_CHECKING:
    AnyCommand: TypeAlias = base.Command
    AnyReply: TypeAlias = base.Reply
else:  # a decoder has to know every tag
    AnyCommand = Union[COMMANDS]  # noqa: UP007 - of a tuple
    AnyReply = Union[REPLIES]  # noqa: UP007 - of a tuple
