"""The options of `engramq duplicates`."""

from __future__ import annotations

from typing import Final

import click

from engramq.deploy.cli.options import limit_option
from engramq.deploy.servers_for import servers_for
from engramq.schemas.setting_values import namespace
from engramq.schemas.vocabulary import Partition

SHOWN: Final = 20  # groups
SHOWN_MAX: Final = 10_000
LEAST: Final = 0.5  # what is less similar is about something else


def _cosine(text: str) -> float:
    value = float(text)
    if not LEAST <= value <= 1.0:  # nor is NaN
        raise ValueError(f"{text} is not from {LEAST} to 1")
    return value


@click.command("duplicates")
@click.option("--namespace", metavar="NAME", type=namespace, help="Default: ENGRAMQ_NAMESPACE.")
@click.option(
    "--similarity",
    metavar="X",
    type=_cosine,
    help="Least cosine of two memories that are alike. Default: as .95 with the bundled model.",
)
@click.option(
    "--partition", type=click.Choice([str(word) for word in Partition]), help="Default: both, each by itself."
)
@limit_option(SHOWN_MAX, SHOWN, "Groups listed.", least=0)
@click.option("--merge", is_flag=True, help="Supersede what is alike by the one that stays.")
@click.option("--yes", is_flag=True, help="With --merge: do it. Without it everything is only listed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(
    supervisor: tuple[str, ...],
    /,
    namespace: str | None,
    similarity: float | None,
    partition: str | None,
    limit: int,
    *,
    merge: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """List memories that say the same, and with --merge --yes keep one of each group.

    Of each group the one stays that is vouched for best, else the newest; the others are superseded by it, and
    restore_memory brings one back. Memories of different partitions, projects, threads, speakers, times or tags are no
    duplicates, nor are short texts, nor texts that differ in a word, a number or their order. What has an external_id
    stays.
    """
    if yes and not merge:
        raise click.UsageError("--yes goes with --merge.")
    with servers_for("duplicates", supervisor) as chosen:
        from engramq.deploy.cli.duplicates_command import asked_for, list_duplicates  # noqa: PLC0415 - 1 s of imports, see gateway

        asked = asked_for(partition=partition, similarity=similarity, shown=limit, merge=merge, yes=yes)
        list_duplicates(asked, chosen, namespace=namespace or chosen.namespace, as_json=as_json)
