"""`engramq stdio`: serve MCP on standard input and output, sharing the home's stack."""

import os

import click

from engramq.deploy.local import settings
from engramq.deploy.local.stdio import serve
from engramq.schemas.setting_values import name, namespace, principal


@click.command("stdio")
@click.option("--namespace", metavar="NAME", type=namespace, help="The tenant. Default: ENGRAMQ_NAMESPACE.")
@click.option("--principal", metavar="NAME", type=principal, help="Who the client is. Default: ENGRAMQ_PRINCIPAL.")
@click.option("--tools", metavar="full|core|NAME,...", type=name, help="Which tools there are. Default: ENGRAMQ_TOOLS.")
@click.option("--project", metavar="NAME", type=name, help="The project; * sees all. Default: ENGRAMQ_PROJECT.")
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
