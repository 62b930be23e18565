"""What makes an edge constitutive, in Python and in the queries of a purge."""

import json

from engramq.workers.db import queries
from engramq.workers.db.queries import Library
from engramq.workers.graph.edge_rules import MARKS, is_constitutive
from tests.workers.graph.harness import Harness

VALUES = ("true", "false", "null", "1", "0", '"true"', '"constitutive"', '"Constitutive"', '""', "[]", "[true]", "{}")


async def test_sql_and_python_agree(harness: Harness) -> None:
    fragment = Library(queries._FOLDER).fragments["constitutive"]
    cases = ["{}", '{"other": true}', *(f'{{"{mark}": {value}}}' for mark in MARKS for value in VALUES)]
    cases += [f'{{"{MARKS[0]}": {item}, "{MARKS[1]}": {other}}}' for item in VALUES for other in VALUES]
    text = json.dumps(cases).replace("'", "''")
    rows = harness.rows(
        f"select x.properties, coalesce({fragment}, false) as marked "
        f"from (select jsonb_array_elements_text('{text}')::jsonb as properties) x"
    )
    assert len(rows) == len(cases)
    assert [row["properties"] for row in rows if row["marked"] is not is_constitutive(row["properties"])] == []
    assert {row["marked"] for row in rows} == {True, False}
