"""`engramq hook`: handle one event of a client; engramq hooks has clients run it."""

from __future__ import annotations

import click

from engramq.deploy.local.hooks.run import CLIENTS, NO_CAPTURE, RECALL_CAPTURED, main


@click.command("hook")
@click.argument("client", type=click.Choice(CLIENTS), metavar="CLIENT")
@click.option(RECALL_CAPTURED, "recall_captured", is_flag=True, help="With what hooks have captured, marked as data.")
@click.option(NO_CAPTURE, "no_capture", is_flag=True, help="Nor what earlier sessions still have to be captured.")
def command(*, client: str, recall_captured: bool, no_capture: bool) -> int:
    """Handle one event of a client; engramq hooks has clients run it.

    CLIENT is claude-code, codex or gemini; the event is JSON on standard input. Always ends with 0, within 2 s.
    """
    options = {RECALL_CAPTURED: recall_captured, NO_CAPTURE: no_capture}
    return main([client, *(option for option, is_given in options.items() if is_given)])
