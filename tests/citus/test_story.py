"""On the cluster that ENGRAMQ_TEST_CITUS_URL names: the whole story, and each tenant on one node."""

from pathlib import Path

import psycopg
import pytest

from tests.conftest import CITUS, Database
from tests.scale.story import tell, terminal_of
from tests.scenarios.stage import stage_settings, staged
from tests.workers.tenants.tables import tenant_tables

pytestmark = pytest.mark.timeout(240)

# Citus' own catalogue: distribution method n is whole on every node, h is by a hash.
PLACES = "select logicalrelid::text as name, partmethod::text as method, colocationid as beside from pg_dist_partition"
UNGUARDED = """
select count(*) as shards from run_command_on_shards(
    'audit_log', 'select relrowsecurity from pg_class where oid = ''%%s''::regclass'
) where result <> 't'
"""


def test_the_tests_run_on_a_cluster() -> None:
    assert CITUS, "set ENGRAMQ_TEST_CITUS_URL, as CONTRIBUTING.md says"


def test_all_rows_of_a_tenant_are_together_and_guarded_on_every_shard(database: Database) -> None:
    places = {row["name"]: (row["method"], row["beside"]) for row in database.rows(PLACES)}
    spread = {name: beside for name, (method, beside) in places.items() if method == "h"}
    with psycopg.connect(database.owner_url) as owner:
        tables = set(tenant_tables(owner))
    assert tables - {name for name, (method, _) in places.items() if method == "n"} <= {*spread}
    assert len(set(spread.values())) == 1
    assert database.rows(UNGUARDED) == [{"shards": 0}]


async def test_the_whole_story(
    database: Database, redis_url: str, key_prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = stage_settings(database, redis_url, key_prefix)
    async with staged(settings) as stage:
        terminal = terminal_of(settings, capsys, ENGRAMQ_PORT="0", ENGRAMQ_HOME=str(tmp_path / "home"))
        await tell(stage, terminal, tmp_path, redis_url)
