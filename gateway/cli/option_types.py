"""What options of the commands take."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from engramq.schemas import setting_values

T = TypeVar("T")


class Checked(click.ParamType[T]):
    """What `read` makes of a text; a ValueError of it says what is wrong."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            return self._read(value)
        except ValueError as problem:
            self.fail(f"{problem}.", param, ctx)


def _namespace(text: str) -> str:
    try:
        return setting_values.namespace(text)
    except ValueError as problem:
        raise ValueError(f"{text!r}: {problem}") from None


# A tenant's name. A blank one is refused: a variable that is not set must not mean the default tenant.
NAMESPACE = Checked("namespace", _namespace)
