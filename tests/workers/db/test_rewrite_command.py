"""What `engramq purge --rewrite` says: what it is about to do, what it is at, and what was done."""

import json
import re

import pytest

from engramq.deploy.cli.rewriting import rewrite_files
from engramq.schemas.settings import read_settings
from tests.conftest import Database

pytestmark = [pytest.mark.own_database, pytest.mark.promise("OV-18")]


def test_it_says_what_it_is_about_to_do_what_it_is_at_and_what_was_done(
    database: Database, redis_url: str, key_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"ENGRAMQ_DATABASE_URL": database.owner_url, "ENGRAMQ_REDIS_URL": redis_url}
    settings = read_settings(variables | {"ENGRAMQ_KEY_PREFIX": key_prefix})
    rewrite_files(settings, with_wal=False, as_json=False)
    said = capsys.readouterr()
    first, waits, *lines = said.err.splitlines()
    number = len([line for line in lines if re.match(r"\d+ of \d+: ", line)])
    assert re.fullmatch(
        rf"Writing anew, for all namespaces: {number} tables with their indexes \([\d.,]+ MB\), the statistics "
        r"and the append-only file of Redis\.",
        first,
    )
    assert waits.startswith("Whoever needs a table waits while it is written.")
    assert lines[-2:] == ["The statistics ...", "The append-only file of Redis ..."]
    done, *rest = said.out.splitlines()
    assert re.match(rf"Written anew: {number} tables with their indexes \([\d.,]+ -> [\d.,]+ MB\)", done)
    assert ("append-only file of Redis" in done) is ("Redis has no append-only file." not in rest)
    assert rest[-1].startswith("The write-ahead log and backups of a server of your own")

    rewrite_files(settings, with_wal=False, as_json=True)
    said = capsys.readouterr()
    assert said.err == ""
    assert len(json.loads(said.out)["tables"]) == number
