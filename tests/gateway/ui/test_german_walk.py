"""A reader of German walks through every view of the page, with data in each, and meets no English of ours."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final

import pytest

from tests.gateway.ui.browsing import Shown
from tests.gateway.ui.conftest import Served, constitutive_edge
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

# Words of English sentences and labels that no German text has, nor the data below.
ENGLISH: Final = re.compile(
    r"\b(?:the|is|are|were|has|have|had|of|and|or|not|no|to|with|without|by|from|this|that|it|its|for|as|be|been|"
    r"shown|search(?:es)?|kept|agent|unasked|request|helped|misled|weight|position|recorded|trusted|used|linked|replaced|"
    r"new|when|edge|node|deleted|verified|similarity|speaker|second|only|nothing|row|rows|ago|hits?)\b",
)
SPOKEN: Final = ("title", "aria-label", "placeholder", "alt", "data-status", "data-said")
KEPT: Final = ("code", "kbd", "pre", "script", "style")


class Spoken(HTMLParser):
    """Collects what a page says: its texts but code, and the attributes that people read."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._kept = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._kept += tag in KEPT
        self.said += [value for name, value in attrs if name in SPOKEN and value]

    def handle_endtag(self, tag: str) -> None:
        self._kept -= tag in KEPT

    def handle_data(self, data: str) -> None:
        if not self._kept and data.strip():
            self.said.append(" ".join(data.split()))


def english_on(page: Shown) -> Iterator[str]:
    spoken = Spoken()
    spoken.feed(page.response.text)
    return (said for said in spoken.said if ENGLISH.search(said))


async def fill(here: Served) -> dict[str, str]:
    """Store something for each view, all of it in German; return the ids that addresses need."""
    ada, scout = await here.agent("ada"), await here.agent("researcher")
    about = {"thread": "planung", "position": 3, "speaker": "Lena", "project": "laden"}
    first = await ada.store("Lena trinkt Tee", tags=["tee"], **about)
    second = await ada.store("Lena trinkt Kaffee", evidence=[{"memory_id": first["id"]}], confidence=0.5)
    wish = await ada.store("Antworte immer kurz", standing=True)
    gone = await ada.store("Das Lager hat zwei Tore")
    newer = await ada.store("Das Lager hat drei Tore")
    private = await ada.store("Kennung des Lagers", visibility="private")
    await ada.store("Das Haus hat Fenster", project="haus")
    await scout.store("Ein Forum sagt es so", source_type="research")
    await ada.call("connect", source=first["id"], target=second["id"], relation="SIEHE", note="beide")
    await ada.call("search_memories", query="Tee")
    await ada.call("record_outcome", memory_ids=[first["id"]], outcome="success", reason="gut")
    await ada.call("verify_memory", memory_id=first["id"], verification="verified", reason="gesehen")
    await ada.call("update_memory", memory_id=first["id"], confidence=0.9, add_tags=["gut"])
    await ada.call("supersede_memory", old_memory_id=gone["id"], new_memory_id=newer["id"])
    await ada.call("forget_memory", memory_id=wish["id"])
    await propose(ada)
    loose = await ada.call("graph_add_edge", source_name="Lager", target_name="Tor", relation="HAT")
    await ada.call("graph_delete_edge", edge_id=loose["edge_id"])
    stored = {"first": first, "second": second, "gone": gone, "wish": wish, "private": private}
    return {name: each["id"] for name, each in stored.items()}


async def propose(agent: Agent) -> None:
    """Want every change that only two principals together may make."""
    edge = await constitutive_edge(agent)
    triple = {"source_name": "Finance", "target_name": "Refunds", "relation": "APPROVES"}
    await agent.call("reclassify_memory_sector", new_sector="procedural", **triple)
    await agent.call("graph_add_edge", **triple, properties={"is_constitutive": False, "limit": 5}, weight=0.5)
    await agent.call("graph_delete_edge", edge_id=edge["edge_id"])
    await agent.call("graph_delete_node", name="Finance")


VIEWS: Final = (
    *(
        "",
        "/live",
        "/more",
        "/system",
        "/system/live",
        "/counts",
        "/facets",
        "/timeline",
        "/contradictions",
        "/standing",
    ),
    *("/memories", "/memories?q=Lena+Tee", "/memories?q=Lena&project=haus", "/memories?q=Tee&as_of=2020-01-01"),
    *("/memories?state=archived", "/memories?since=x", "/memories/new", "/memories/x", "/nirgends", "/changes"),
    *("/projects", "/inbox", "/inbox?verification=rejected", "/consent", "/consent?state=all", "/audit", "/tokens"),
    *("/graph", "/graph?node=Finance", "/graph?node=Nirgends", "/imports", "/imports/live"),
)


async def test_no_view_says_a_sentence_in_english(here: Served) -> None:
    ids = await fill(here)
    browser = await here.browser("ada")
    browser.client.headers["accept-language"] = "de"
    views = [*VIEWS, f"/graph?memory={ids['first']}"]
    views += [f"/memories/{each}{rest}" for each in ids.values() for rest in ("", "/content", "?as_of=2020-01-01")]
    found = {view: sorted(english_on(await browser.get(f"/ui{view}"))) for view in views}
    assert {view: said for view, said in found.items() if said} == {}
