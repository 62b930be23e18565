"""`engramq show`: show one memory whole, with its links."""

from __future__ import annotations

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import door
from engramq.deploy.cli.memory_ids import memory_id
from engramq.deploy.cli.output import tell
from engramq.deploy.cli.tables import draw_memory
from engramq.schemas.command_line import ExitCode


@click.command("show")
@click.argument("identifier", metavar="ID")
@click.option("--untrusted", is_flag=True, help="Also one that is kept apart.")
@common.options(common.AS_OF, common.NAMESPACE, common.JSON)
def command(
    identifier: str,
    as_of: str | None,
    namespace: str | None,
    *,
    untrusted: bool,
    as_json: bool,
) -> ExitCode:
    """Show one memory whole, with its links.

    ID may be its beginning, of 8 characters or more, if no other has that.
    """
    with door(namespace) as gateway:
        asked = {"include_untrusted": untrusted, "as_of": as_of, "detail": "full", "max_chars": common.WHOLE_REPLY}
        reply = gateway.call("get_memory", {"memory_id": memory_id(gateway, identifier), **common.arguments(asked)})
        return tell(reply, draw_memory, as_json=as_json)
