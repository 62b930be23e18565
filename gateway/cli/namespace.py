"""The option --namespace of the commands."""

from typing import Any

import click

from schemas import setting_values


class Namespace(click.ParamType[str]):
    """A tenant's name. A blank one is refused: a variable that is not set must not mean the default tenant."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return setting_values.namespace(value)
        except ValueError as problem:
            self.fail(f"{value!r}: {problem}.", param, ctx)
