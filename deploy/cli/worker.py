"""`engramq worker`: workers until they are asked to stop."""

from pathlib import Path

import click

from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import serve_kinds


@click.command(
    "worker",
    help="Run workers of the given kinds, or of all.\n\n"
    f"A KIND is any of {', '.join(WorkerKind)}. Needs Redis (ENGRAMQ_REDIS_URL) and PostgreSQL (ENGRAMQ_DATABASE_URL).",
)
@click.argument("kinds", metavar="[KIND]...", nargs=-1, type=click.Choice([str(kind) for kind in WorkerKind]))
@click.option("--all", "every", is_flag=True, help="All kinds in this process.")
@click.option("--embedder-file", hidden=True, type=click.Path(path_type=Path))  # of a home, which its supervisor names
@click.option("--ends-refused", hidden=True, is_flag=True)  # where PostgreSQL is the home's own
def command(kinds: tuple[str, ...], *, every: bool, embedder_file: Path | None, ends_refused: bool) -> None:
    if every == bool(kinds):
        raise click.UsageError(f"Name worker kinds ({', '.join(WorkerKind)}), or give --all.")
    with servers_for("worker") as settings:
        named = [WorkerKind(kind) for kind in kinds]
        serve_kinds(named or list(WorkerKind), settings, embedder_file, ends_refused=ends_refused)
