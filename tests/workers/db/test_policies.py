"""Who has changed the policy that keeps what is private is told so: no worker starts, and `engramq doctor` names it."""

import psycopg
import pytest

from engramq.schemas.checks import CheckName
from engramq.workers.db.database import Store
from engramq.workers.db.diagnosis import diagnose
from engramq.workers.db.readiness import NotReady
from tests.conftest import Database

TENANT_ONLY = "tenant = nullif(current_setting('app.tenant', true), '')::integer"
CHANGES = {
    "using": f"alter policy own_tenant on {{table}} using ({TENANT_ONLY})",
    "check": f"alter policy own_tenant on {{table}} with check ({TENANT_ONLY})",
    "another": f"create policy more on {{table}} to engramq_worker using ({TENANT_ONLY})",
    "gone": "drop policy own_tenant on {table}",
}


@pytest.mark.own_database
@pytest.mark.promise("PV-1")
@pytest.mark.parametrize("table", ["memories", "nodes", "edges"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_worker_refuses_a_policy_that_shows_what_is_private(
    database: Database, table: str, change: str
) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(change.format(table=table).encode())
    with pytest.raises(NotReady) as refused:
        await Store.open(database.url, pool_size=1)
    assert table in refused.value.message
    assert "what is private" in refused.value.message
    (check,) = [check for check in await diagnose(database.url, "english") if check.name == CheckName.DATABASE]
    assert table in check.told
    assert "own_tenant" in check.mend
