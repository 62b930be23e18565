"""`engramq token`: make, list and revoke bearer tokens. A token is shown once, when it is made."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import expiry, identifier, scopes
from engramq.deploy.cli.output import join_parts, json_line, print_list, quoted
from engramq.deploy.local.servers_for import servers_for
from engramq.schemas import limits
from engramq.schemas.command_line import CommandFailed
from engramq.schemas.ids import format_time
from engramq.schemas.setting_values import name, principal
from engramq.schemas.settings import Auth
from engramq.schemas.vocabulary import Scope
from engramq.workers.admin import NewToken, Token, in_database, tokens, tokens_of_all

DEFAULT_SCOPES: Final = f"{Scope.READ},{Scope.WRITE}"
NEVER: Final = "never"
_UNCHECKED: Final = (
    "Here ENGRAMQ_AUTH is none: a server that runs so takes no tokens, and gives every caller of this account all "
    "rights. It checks them with ENGRAMQ_AUTH=token."
)


def _end(text: str) -> datetime | None:
    return None if text == NEVER else expiry(text)


@click.group("token", subcommand_metavar="create|list|revoke", no_args_is_help=False)
def command() -> None:
    """Make, list and revoke the bearer tokens of HTTP clients."""


@command.command("create")
@click.option("--principal", metavar="NAME", required=True, type=principal, help="Principal of the token.")
@common.NAMESPACE
@click.option(
    "--scopes", "granted", metavar="WORD,...", type=scopes, default=DEFAULT_SCOPES, show_default=True,
    help=f"Of {','.join(Scope)}.",
)  # fmt: skip
@click.option("--untrusted", is_flag=True, help="All that this principal stores is untrusted, whatever it says.")
@click.option(
    "--expires", "expires_at", metavar="TIME", type=_end, default=f"{limits.TOKEN_USUAL_DAYS}d", show_default=True,
    help=f"12h, 4w, a date (its end, UTC), a time with a zone, or {NEVER}.",
)  # fmt: skip
@click.option("--project", metavar="NAME", type=name, help="Its project, for calls that name none; * sees all.")
@common.PRIVATE
@click.option("--label", metavar="TEXT", type=name, help="Its purpose, shown in the list.")
@common.JSON
def create(namespace: str | None, granted: tuple[Scope, ...], *, as_json: bool, **given: Any) -> None:
    """Make a token and show it, this once."""
    new = NewToken(scopes=granted, **given)
    with servers_for("token") as settings:
        place = namespace or settings.namespace
        secret, made = in_database(settings, lambda store: tokens.create(store, place, new, settings.principal))
    if settings.auth is Auth.NONE:
        click.echo(_UNCHECKED, err=True)
    if as_json:
        click.echo(json_line(made, token=secret))
        return
    click.echo(_format_token(made), err=True)
    click.echo("This is the token. It is shown this once and kept nowhere:", err=True)
    click.echo(secret)  # alone on standard output, so that a script can take it from there


@command.command("list")
@common.namespace_option("Default: all of them.")
@common.JSON
def list_(namespace: str | None, *, as_json: bool) -> None:
    """Show tokens, never their secrets."""
    with servers_for("token") as settings:
        listed = in_database(
            settings, tokens_of_all if namespace is None else lambda store: tokens.list_kept(store, namespace)
        )
    print_list(listed, _format_token, as_json=as_json, none="engramq token: there are none")


@command.command("revoke")
@click.argument("token_id", metavar="ID", type=identifier)
@common.JSON
def revoke(token_id: UUID, *, as_json: bool) -> None:
    """Revoke a token: within half a minute it is refused.

    ID is as create and list show it.
    """
    with servers_for("token") as settings:
        revoked = in_database(settings, lambda store: tokens.revoke(store, token_id, settings.principal))
    if revoked is None:
        raise CommandFailed(f"There is no token {token_id}; engramq token list shows all.")
    token, changed = revoked
    click.echo(
        json_line(token) if as_json else _format_token(token) if changed else f"{_format_token(token)}  (it was before)"
    )


def _format_token(token: Token) -> str:
    return join_parts(
        str(token.id),
        f"{quoted(token.principal)} in {quoted(token.namespace)}",
        ",".join(token.scopes) + (" untrusted" if token.untrusted else ""),
        "" if token.project is None else f"project {quoted(token.project)}",
        "" if token.visibility is None else f"stores {token.visibility}",
        _validity(token),
        "" if token.label is None else f"label {quoted(token.label)}",
    )


def _validity(token: Token) -> str:
    if token.revoked_at is not None:
        return f"revoked {format_time(token.revoked_at)}"
    if token.expires_at is None:
        return "never expires"
    return f"{'expired' if token.expires_at <= datetime.now(UTC) else 'expires'} {format_time(token.expires_at)}"
