"""The promises of the product by number, and which of them are kept today.

`KEPT` have at least one test that names them (`@pytest.mark.promise("MT-1")`). `LATER` belong to work that is not done
yet, each with what it waits for; some of them have tests of the part that is there.
"""

import re
from collections.abc import Iterable


def _numbers(family: str, spans: str) -> set[str]:
    found: set[str] = set()
    for span in spans.split():
        first, _, last = span.partition("-")
        found |= {f"{family}-{number}" for number in range(int(first), int(last or first) + 1)}
    return found


ALL = (
    _numbers("RS", "1-24")
    | _numbers("GE", "1-23")
    | _numbers("TP", "1-28")
    | _numbers("CN", "1-46")
    | _numbers("MT", "1-20")
    | _numbers("QP", "1-19")
    | _numbers("IM", "1-12")
    | _numbers("SE", "1-19")
    | _numbers("OP", "1-14")
    | _numbers("AG", "1-23")
    | _numbers("OV", "1-18")
    | _numbers("TI", "1-7")
    | _numbers("RC", "1-12")
    | _numbers("SC", "1-12")
)

KEPT = (
    _numbers("MT", "1-20")
    | _numbers("QP", "1-19")
    | _numbers("IM", "1-12")
    | _numbers("OP", "1-14")
    | _numbers("CN", "1-46")
    | _numbers("TP", "1-28")
    | _numbers("RS", "1-24")
    | _numbers("GE", "1-23")
    | _numbers("SE", "1-19")
    | _numbers("SC", "1-12")
    | _numbers("AG", "1-23")
    | _numbers("OV", "1-18")
    | _numbers("TI", "1-7")
    | _numbers("RC", "1-12")
)

LATER: dict[str, set[str]] = {}


def sort_key(promise: str) -> tuple[str, int]:
    family, number = promise.split("-")
    return family, int(number)


def well_formed(promises: Iterable[str]) -> bool:
    return all(re.fullmatch(r"[A-Z]{2}-\d+", promise) for promise in promises)
