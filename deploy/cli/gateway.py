"""`engramq gateway`: serve MCP over HTTP (or on a socket), with the servers of the environment."""

from pathlib import Path
from typing import IO

import click

from engramq.deploy.cli.options import address_options, address_variables, named_as_options
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.run import serve
from engramq.schemas.exports import ExportForm, ExportFormat
from engramq.schemas.uploads import CallTool, PageFiles, Upload, UploadReport


@click.command("gateway")
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    help="Serve stdio sessions on this unix socket instead of HTTP.",
)
@click.option("--http", is_flag=True, help="Serve HTTP beside --socket too.")
@address_options
def command(socket_path: Path | None, host: str | None, port: int | None, *, http: bool) -> None:
    """Serve MCP over HTTP (or on a socket), with the servers of the environment.

    HTTP is served at ENGRAMQ_HOST and ENGRAMQ_PORT. Needs Redis (ENGRAMQ_REDIS_URL).
    """
    given = address_variables(host, port)
    if given and socket_path is not None and not http:
        raise click.UsageError("--host and --port are of HTTP: add --http, or leave --socket out.")
    with named_as_options(given), servers_for("gateway", given) as settings:
        files = PageFiles(_import_upload, _form_into)
        serve(settings, socket_path=socket_path, http=http or socket_path is None, files=files)


async def _import_upload(upload: Upload, call: CallTool, report: UploadReport) -> None:
    from engramq.deploy.importing.uploads import import_upload  # noqa: PLC0415 - every reader, for files alone

    await import_upload(upload, call, report)


def _form_into(form: ExportFormat, out: IO[bytes]) -> ExportForm:
    from engramq.deploy.exporting import form_into  # noqa: PLC0415 - for an export in such a form alone

    return form_into(form, out)
