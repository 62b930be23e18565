"""Whatever somebody has stored, a page that shows it runs none of it and asks nobody for anything."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from engramq.schemas.fields import NOT_IN_NAMES
from tests.page.conftest import Watched
from tests.page.payloads import MARK, PAYLOADS
from tests.page.stack import Stack

pytestmark = [pytest.mark.promise("OP-12"), pytest.mark.timeout(400)]

OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true })"
NAME = MARK.partition("=")[0]
# Elements and attributes that no page of ours has in its content.
FOREIGN = (
    "main script, main style, main iframe, main object, main embed, main base, main meta, main video, main math, "
    "main [onerror], main [onload], main [onfocus], main [srcdoc], #owned"
)


def name_of(payload: str) -> str:
    """Return a payload without the marks that no name may have."""
    return NOT_IN_NAMES.sub("", payload)


@pytest.fixture(scope="module")
def poisoned(stack: Stack) -> dict[str, list[str]]:
    """Store each of them as everything that somebody may choose."""
    edges = [
        {"source_name": "Evil", "target_name": name, "relation": name, "target_label": name}
        for name in map(name_of, PAYLOADS)
    ]
    duties = [
        {
            "source_name": payload,
            "target_name": "Duty",
            "relation": "MUST",
            "properties": {"is_constitutive": True, payload: payload},
        }
        for payload in PAYLOADS[:10]
    ]
    stack.call_all("ada", "graph_add_edge", edges)
    stack.call_all("ada", "graph_add_edge", duties)
    whole: list[dict[str, Any]] = [
        {
            "content": f"{number} {payload}",
            "speaker": name_of(payload),
            "thread": name_of(payload),
            "project": name_of(payload),
            "tags": [name_of(payload)],
            "metadata": {payload: payload},
        }
        for number, payload in enumerate(PAYLOADS)
    ]
    apart = [{**memory, "source_type": memory["speaker"]} for memory in whole]
    ids = {
        "trusted": [reply["stored"]["id"] for reply in stack.call_all("ada", "store_memory", whole)],
        "untrusted": [reply["stored"]["id"] for reply in stack.call_all("scout", "store_memory", apart)],
    }
    for number, (item, duty) in enumerate(zip(PAYLOADS[:10], duties, strict=True)):
        ends = ids["trusted"][number], ids["trusted"][number + 1]
        stack.call("ada", "connect", source=ends[0], target=ends[1], relation=item, note=item)
        stack.call("ada", "forget_memory", memory_id=ids["trusted"][number + 20], reason=item)
        triple = {name: duty[name] for name in ("source_name", "target_name", "relation")}
        stack.call("ada", "reclassify_memory_sector", **triple, new_sector="episodic", reason=item)
    return ids


def test_there_are_enough_of_them() -> None:
    assert len(set(PAYLOADS)) >= 40


def test_nothing_that_is_stored_runs_on_any_page(
    stack: Stack, poisoned: dict[str, list[str]], opened: Callable[..., Watched]
) -> None:
    evil = stack.invite(PAYLOADS[4], "read,write,verify,admin", "--label", PAYLOADS[0], "--project", PAYLOADS[8])
    assert evil
    seen = opened(PAYLOADS[4])
    addresses = [
        "/ui",
        "/ui/memories?project=*",
        "/ui/memories?partition=both&project=*",
        "/ui/memories?project=*&q=script",
        f"/ui/memories?q={quote(PAYLOADS[6])}&tags={quote(PAYLOADS[7])}&since={quote(PAYLOADS[0])}",
        "/ui/inbox",
        "/ui/consent?state=all",
        "/ui/graph?node=Evil",
        f"/ui/graph?node={quote(PAYLOADS[4])}",
        "/ui/audit",
        f"/ui/audit?target={quote(PAYLOADS[0])}&actor={quote(PAYLOADS[4])}",
        "/ui/tokens",
        "/ui/imports",
        f"/ui/sign-in?next={quote(PAYLOADS[23])}",
        f"/ui/{quote(PAYLOADS[0], safe='')}",
        *(f"/ui/memories/{item}" for item in poisoned["trusted"]),
        *(f"/ui/memories/{item}" for item in poisoned["untrusted"][::8]),
        *(f"/ui/graph?memory={item}" for item in poisoned["trusted"][:4]),
    ]
    for address in addresses:
        page = seen.go(address)
        if "graph" in address and page.locator("#drawing").count():
            page.wait_for_selector("#drawing[data-drawn]")
        page.evaluate(OPEN_ALL)
        assert page.evaluate(f"{NAME} === undefined"), address
        assert page.url.startswith(stack.origin), address
        assert page.locator(FOREIGN).count() == 0, address
    assert [wrong for wrong in seen.wrong if "status of 40" not in wrong] == []
    seen.wrong.clear()


def test_a_payload_is_shown_as_it_is(
    stack: Stack, poisoned: dict[str, list[str]], opened: Callable[..., Watched]
) -> None:
    seen = opened()
    for number in (0, 4, 36, 46, 48):
        page = seen.go(f"/ui/memories/{poisoned['trusted'][number]}")
        shown = PAYLOADS[number].replace("\u202e", "U+202E").replace("\u202c", "U+202C")  # invisible ones are named
        assert page.locator(".content.whole").inner_text() == f"{number} {shown}"
