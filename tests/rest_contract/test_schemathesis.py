"""Schemathesis sends what the document allows, and what it does not, to the whole pipeline."""

from pathlib import Path

import anyio
import pytest

from engramq.gateway.rest.app import OPENAPI_PATH
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.auth.tokens import NewToken
from tests.architecture.source import ROOT
from tests.gateway.test_identity_end_to_end import served, settings

__all__ = ["settings"]


SCHEMATHESIS = ROOT / ".environments" / "rest" / "bin" / "st"
TIME_S = 60
# What these find is meant so: texts that mean a number are taken, as from every model and from each query
# (negative data), and a schema cannot say that a span must not be reversed or that two ids must differ (positive data).
MEANT = "negative_data_rejection,positive_data_acceptance"


@pytest.mark.promise("RC-7")
@pytest.mark.timeout(180)
async def test_no_request_fails_the_server_or_is_answered_other_than_the_document_says(
    settings: Settings, tmp_path: Path
) -> None:
    async with served(settings) as here:
        await here.invite("tester", "tests", NewToken(principal="tester", scopes=ALL_SCOPES))
        command = [
            str(SCHEMATHESIS),
            *("run", f"http://127.0.0.1:{here.site.port}{OPENAPI_PATH}"),
            *("--header", f"Authorization: Bearer {here.secrets['tester']}"),
            *("--checks", "all", "--exclude-checks", MEANT),
            *("--phases", "examples,coverage,fuzzing", "--max-time", str(TIME_S), "--max-examples", "30"),
            # One worker: hypothesis parses sources of lambdas, and ast.parse of Python 3.11 fails at times in two
            # threads at once ("AST constructor recursion depth mismatch").
            *("--seed", "17", "--workers", "1", "--no-shrink", "--continue-on-failure", "--request-timeout", "10"),
        ]
        ended = await anyio.run_process(command, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stdout.decode()[-20_000:]
