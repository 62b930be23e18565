"""A reader of German walks through every view of the page, with data in each, and meets no English of ours."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Final

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
# Stored in English, in words that the page says in German where they are its own.
THREAD: Final = "Inbox, weight of it"
NAMES: Final = ("Ada works in project apollo", "3 memories: weight is 1 already")
STORED: Final = (THREAD, *NAMES)
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
    """Yield what a page says in English but for what is stored so."""
    spoken = Spoken()
    spoken.feed(page.response.text)
    for said in spoken.said:
        ours = said
        for text in STORED:
            ours = ours.replace(text, "")
        if ENGLISH.search(ours):
            yield said


async def done(agent: Agent, status: str, tool: str, **given: Any) -> dict[str, Any]:
    """Make a call, which has to end so."""
    body = await agent.call(tool, **given)
    assert body["status"] == status, body
    return body


async def fill(here: Served) -> dict[str, str]:
    """Store something for each view, in German but for what STORED has; return the ids that addresses need."""
    ada, scout = await here.agent("ada"), await here.agent("researcher")
    about = {"thread": "planung", "position": 3, "speaker": "Lena", "project": "laden"}
    first = await ada.store("Lena trinkt Tee", tags=["tee"], **about)
    second = await ada.store("Lena trinkt Kaffee", evidence=[{"memory_id": first["id"]}], confidence=0.5)
    english = await ada.store(NAMES[0], thread=THREAD, position=2)
    wish = await ada.store("Antworte immer kurz", standing=True)
    gone = await ada.store("Das Lager hat zwei Tore")
    newer = await ada.store("Das Lager hat drei Tore")
    private = await ada.store("Kennung des Lagers", visibility="private")
    await ada.store("Das Haus hat Fenster", project="haus")
    await scout.store("Ein Forum sagt es so", source_type="research")
    await done(ada, "success", "connect", source=first["id"], target=second["id"], relation="SIEHE", note="beide")
    await done(ada, "success", "search_memories", query="Tee")
    await done(ada, "success", "record_outcome", memory_ids=[first["id"]], signal=1, note="gut")
    await done(ada, "success", "verify_memory", memory_id=first["id"], verification="verified", reason="gesehen")
    await done(ada, "updated", "update_memory", memory_id=first["id"], confidence=0.9, add_tags=["gut"])
    await done(ada, "superseded", "supersede_memory", old_memory_id=gone["id"], new_memory_id=newer["id"])
    await done(ada, "archived", "forget_memory", memory_id=wish["id"])
    await propose(ada)
    loose = await done(ada, "success", "graph_add_edge", source_name="Lager", target_name="Tor", relation="HAT")
    await done(ada, "deleted", "graph_delete_edge", edge_id=loose["edge_id"])
    stored = {"first": first, "second": second, "gone": gone, "wish": wish, "private": private, "english": english}
    return {name: each["id"] for name, each in stored.items()}


async def propose(agent: Agent) -> None:
    """Want every change that only two principals together may make."""
    edge = await constitutive_edge(agent)
    triple = {"source_name": "Finance", "target_name": "Refunds", "relation": "APPROVES"}
    await done(agent, "consent_required", "reclassify_memory_sector", new_sector="procedural", **triple)
    await done(
        agent,
        "consent_required",
        "graph_add_edge",
        **triple,
        properties={"is_constitutive": False, "limit": 5},
        weight=0.5,
    )
    await done(agent, "consent_required", "graph_delete_edge", edge_id=edge["edge_id"])
    await done(agent, "consent_required", "graph_delete_node", node_id=edge["source_id"])
    named = {"source_name": NAMES[0], "target_name": NAMES[1], "relation": "HAT"}
    await done(agent, "success", "graph_add_edge", **named, properties={"is_constitutive": True})
    await done(agent, "consent_required", "graph_add_edge", **named, properties={"is_constitutive": False}, weight=0.5)


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
    pages = {view: await browser.get(f"/ui{view}") for view in views}
    found = {view: sorted(english_on(page)) for view, page in pages.items()}
    assert {view: said for view, said in found.items() if said} == {}
    words = f"{NAMES[0]} (Entity) --HAT--&gt; {NAMES[1]} (Entity)"
    assert f"Die Kante {words} ändern: " in pages["/consent"].response.text
    assert "geholfen 1" in pages[f"/memories/{ids['first']}"].response.text
    assert f"Sitzung {THREAD}, Stelle 2" in pages[f"/memories/{ids['english']}"].response.text
