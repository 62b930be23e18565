"""The options of `engramq token`."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import expiry, identifier, scopes
from engramq.deploy.servers_for import servers_for
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import name, namespace, principal
from engramq.schemas.vocabulary import Scope

DEFAULT_SCOPES: Final = f"{Scope.READ},{Scope.WRITE}"


@click.group("token", subcommand_metavar="create|list|revoke", no_args_is_help=False)
def command() -> None:
    """Make, list and revoke the bearer tokens of HTTP clients."""


@command.command("create")
@click.option("--principal", metavar="NAME", required=True, type=principal, help="Who comes in by it.")
@common.NAMESPACE
@click.option(
    "--scopes",
    "granted",
    metavar="WORD,...",
    type=scopes,
    default=DEFAULT_SCOPES,
    show_default=True,
    help=f"Of {','.join(Scope)}.",
)
@click.option("--untrusted", is_flag=True, help="All that this principal stores is untrusted, whatever it says.")
@click.option(
    "--expires",
    "expires_at",
    metavar="TIME",
    type=expiry,
    help="90d, 12h, 4w, a date (its end, UTC) or a time with a zone. Default: never.",
)
@click.option("--project", metavar="NAME", type=name, help="Its project, for calls that name none; * sees all.")
@click.option("--label", metavar="TEXT", type=name, help="What it is for, shown in the list.")
@common.JSON
def create(
    principal: str,
    namespace: str | None,
    granted: tuple[Scope, ...],
    expires_at: datetime | None,
    label: str | None,
    *,
    project: str | None,
    untrusted: bool,
    as_json: bool,
) -> None:
    """Make a token and show it, this once."""
    with servers_for("token") as settings:
        from engramq.workers.cli.token_command import create_token  # noqa: PLC0415 - psycopg, wasted on wrong options

        create_token(
            settings,
            namespace=namespace or settings.namespace,
            principal=principal,
            scopes=granted,
            untrusted=untrusted,
            project=project,
            label=label,
            expires_at=expires_at,
            as_json=as_json,
        )


@command.command("list")
@click.option("--namespace", metavar="NAME", type=namespace, help="Default: all of them.")
@common.JSON
def list_(namespace: str | None, *, as_json: bool) -> None:
    """Show tokens, never their secrets."""
    with servers_for("token") as settings:
        from engramq.workers.cli.token_command import list_tokens  # noqa: PLC0415 - psycopg, wasted on wrong options

        list_tokens(settings, namespace=namespace, as_json=as_json)


@command.command("revoke")
@click.argument("token_id", metavar="ID", type=identifier)
@common.JSON
def revoke(token_id: UUID, *, as_json: bool) -> ExitCode:
    """Let a token count no longer, within half a minute.

    ID is as create and list show it.
    """
    with servers_for("token") as settings:
        from engramq.workers.cli.token_command import revoke_token  # noqa: PLC0415 - psycopg, wasted on wrong options

        return revoke_token(settings, token_id, as_json=as_json)
