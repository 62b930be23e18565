"""The examples of the published pages run as they stand."""

import os
import re
import sys

import anyio
import pytest

from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.auth.tokens import NewToken
from tests.architecture.source import ROOT
from tests.gateway.test_identity_end_to_end import served, settings

__all__ = ["settings"]


DOCS = ROOT / "docs"


def examples(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return found


@pytest.mark.promise("RC-7", "RC-8")
async def test_the_examples_of_the_pages_run(settings: Settings) -> None:
    async with served(settings) as here:
        await here.invite("reader", "pages", NewToken(principal="reader", scopes=ALL_SCOPES))
        environment = {
            **os.environ,
            "ENGRAMQ_URL": f"http://127.0.0.1:{here.site.port}",
            "ENGRAMQ_TOKEN": here.secrets["reader"],
        }
        programs = [[sys.executable, "-c", example] for example in examples("python.md", "python")]
        programs += [["bash", "-euc", example] for example in examples("rest.md", "sh")]
        assert len(programs) == 4
        for command in programs:
            ended = await anyio.run_process(command, env=environment, check=False)
            assert ended.returncode == 0, f"{command[-1]}\n{ended.stderr.decode()}"
            said = ended.stdout.decode()
            assert re.search(r"9:30|prefers tea|invalid_parameter", said), said
            assert '"status":"error"' not in said
