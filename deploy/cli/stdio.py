"""`engramq stdio`: serve MCP on standard input and output, sharing the home's stack."""

from __future__ import annotations

import os

import click

from engramq.deploy.local import settings
from engramq.deploy.local.stdio import serve
from engramq.schemas.setting_values import name, namespace, principal


@click.command("stdio")
@click.option("--namespace", metavar="NAME", type=namespace, help="Instead of ENGRAMQ_NAMESPACE: the tenant.")
@click.option("--principal", metavar="NAME", type=principal, help="Instead of ENGRAMQ_PRINCIPAL: who the client is.")
@click.option(
    "--tools", metavar="full|core|NAME,...", type=name, help="Instead of ENGRAMQ_TOOLS: which tools there are."
)
@click.option("--project", metavar="NAME", type=name, help="Instead of ENGRAMQ_PROJECT; * sees all projects.")
def command(
    namespace: str | None,
    principal: str | None,
    tools: str | None,
    project: str | None,
) -> int:
    """Serve MCP on standard input and output, sharing the home's stack.

    The stack of ENGRAMQ_HOME is started when it is not running, and shared with every other client.
    """
    given = {
        settings.NAMESPACE: namespace,
        settings.PRINCIPAL: principal,
        settings.TOOLS: tools,
        settings.PROJECT: project,
    }
    return serve({**os.environ, **{variable: value for variable, value in given.items() if value}})
