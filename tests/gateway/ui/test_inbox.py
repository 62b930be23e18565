"""Many captures are judged at once: what is ticked, or all of a session or a project, each as it was seen."""

import pytest

from engramq.gateway.ui.inbox import is_chatter
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served

pytestmark = pytest.mark.promise("OP-12")

INBOX = "/ui/inbox"


async def captured(here: Served) -> dict[str, str]:
    """Have three turns of one session and one of another captured, each in its project; return their ids."""
    scout = await here.agent("researcher")
    turns = {"one": ("s1", "rover"), "two": ("s1", "rover"), "three": ("s1", "rover"), "else": ("s2", "zebra")}
    return {
        text: (await scout.store(f"Turn {text}", source_type="conversation", thread=thread, project=project))["id"]
        for text, (thread, project) in turns.items()
    }


async def judged(browser: Browser, page: Shown, verdict: str, which: str = "shown", **values: list[str]) -> Shown:
    given = {"shown": page.values("shown"), "which": which, "sure": verdict, **values}
    return await browser.send(page, INBOX, verdict=verdict, **given)


@pytest.mark.parametrize("filters", [{"thread": "s1"}, {"project": "rover"}])
async def test_all_of_a_session_or_a_project_is_judged_at_once(here: Served, filters: dict[str, str]) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    everything = await browser.get(INBOX)
    links = [
        link for link in everything.reader.links if all(f"{name}={word}" in link for name, word in filters.items())
    ]
    page = await browser.get(links[0])
    assert ("Turn one" in page.text, "Turn else" in page.text) == (True, False)
    done = await judged(browser, page, "verify")
    assert (done.status, "3 memories are verified." in done.text, "Turn else" in done.text) == (200, True, False)
    done = await judged(browser, done, "promote")
    assert "3 memories are trusted now." in done.text
    assert "Take filters away" in done.text, "the list is still that of the session"
    assert sorted(await agent.recent(project="*")) == ["Turn one", "Turn three", "Turn two"]
    assert (await agent.call("get_memory", memory_id=ids["else"], include_untrusted=True))["memory"]["untrusted"]


async def test_what_is_selected_is_judged_and_nothing_else(here: Served) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    page = await browser.get(INBOX)
    ticked = [value for value in page.values("chosen") if value.startswith((ids["one"], ids["else"]))]
    assert len(page.values("chosen")) == len(page.values("shown")) == 4
    none = await judged(browser, page, "reject", "chosen")
    assert (none.status, "No memory is selected" in none.text) == (400, True)
    done = await judged(browser, page, "reject", "chosen", chosen=ticked)
    assert "2 memories are rejected." in done.text
    rejected = await agent.recent(partitions=["untrusted"], verifications=["rejected"], project="*")
    assert sorted(rejected) == ["Turn else", "Turn one"]
    strange = await judged(browser, page, "shrug")
    assert (strange.status, "That is no verdict" in strange.text) == (400, True)


@pytest.mark.promise("TP-29")
async def test_of_many_those_that_have_changed_are_named_and_left_alone(here: Served) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    page = await browser.get(INBOX)
    await agent.call("update_memory", memory_id=ids["two"], speaker="Eve")
    await agent.call("forget_memory", memory_id=ids["three"], erase=True)
    done = await judged(browser, page, "verify")
    assert "2 memories are verified." in done.text
    assert "1 not: It is not what was seen: speaker changed since." in done.text
    assert "1 not: It is gone." in done.text
    assert f"/ui/memories/{ids['two']}" in done.reader.links
    verified = await agent.recent(partitions=["untrusted"], verifications=["verified"], project="*")
    assert sorted(verified) == ["Turn else", "Turn one"]
    unseen = await judged(browser, page, "verify", "chosen", chosen=[ids["two"]])
    assert (unseen.status, "does not say what was shown" in unseen.text) == (400, True)


async def test_what_is_vouched_for_is_not_verified_back(here: Served) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    await agent.call("verify_memory", memory_id=ids["one"], verification="approved")
    done = await judged(browser, await browser.get(INBOX), "verify")
    assert "3 memories are verified." in done.text
    assert "1 not: It is verified or approved already." in done.text
    assert await agent.recent(partitions=["untrusted"], verifications=["approved"], project="*") == ["Turn one"]


async def test_a_form_of_many_that_lacks_a_look_does_nothing(here: Served) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    page = await browser.get(INBOX)
    ticked = [*page.values("chosen"), ids["two"]]
    unseen = await judged(browser, page, "verify", "chosen", chosen=ticked)
    assert (unseen.status, "nothing was done" in unseen.text) == (400, True)
    assert not await agent.recent(partitions=["untrusted"], verifications=["verified"], project="*")


async def test_who_may_not_judge_is_offered_nothing_to_tick(here: Served) -> None:
    await captured(here)
    page = await (await here.browser("keeper")).get(INBOX)
    assert "Turn one" in page.text
    assert (page.form(INBOX).method, page.values("chosen"), page.values("shown")) == ("get", [], [])
    refused = await (await here.browser("keeper")).get(INBOX, since="some day")
    assert (refused.status, "since" in refused.text) == (400, True)


@pytest.mark.parametrize("verdict", ["promote", "verify"])
async def test_what_somebody_rejects_meanwhile_is_not_trusted_by_an_action_on_many(here: Served, verdict: str) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    page = await browser.get(INBOX, thread="s1")
    await agent.call("verify_memory", memory_id=ids["two"], verification="rejected")
    done = await judged(browser, page, verdict)
    assert "2 memories are" in done.text
    assert "It was rejected since it was shown" in done.text
    kept = (await agent.call("get_memory", memory_id=ids["two"], include_untrusted=True))["memory"]
    assert (kept["verification"], kept["untrusted"]) == ("rejected", True)


@pytest.mark.parametrize("action", ["promote", "verify"])
@pytest.mark.parametrize("place", ["/ui/inbox", "/ui/memories"])
async def test_what_somebody_rejects_meanwhile_is_not_trusted_by_a_single_verdict(
    here: Served, action: str, place: str
) -> None:
    ids, agent, browser = await captured(here), await here.agent("ada"), await here.browser("ada")
    page = await browser.get(INBOX if place == INBOX else f"/ui/memories/{ids['two']}")
    more = {"verification": "verified"} if action == "verify" else {}
    await agent.call("verify_memory", memory_id=ids["two"], verification="rejected")
    done = await browser.send(page, f"{place}/{ids['two']}/{action}", **more)
    assert (done.status, "It was rejected since it was shown" in done.text) == (409, True)
    kept = (await agent.call("get_memory", memory_id=ids["two"], include_untrusted=True))["memory"]
    assert (kept["verification"], kept["untrusted"]) == ("rejected", True)


TALK = [
    ("user", "Use the blue kettle."),
    ("assistant", "I shall use the blue one."),
    ("user", "ok thanks"),
    ("assistant", "You're welcome!"),
    ("user", "When does the shop open?"),
]


async def test_a_turn_is_decided_together_with_its_answer_and_courtesies_are_no_items(here: Served) -> None:
    scout, agent, browser = await here.agent("researcher"), await here.agent("ada"), await here.browser("ada")
    for speaker, text in TALK:
        await scout.store(text, source_type="conversation", thread="s1", speaker=speaker)
    await scout.store("Thanks!", source_type="conversation", thread="s2", speaker="user")
    page = await browser.get(INBOX)
    assert len(page.values("shown")) == 3, "courtesies are not to be judged"
    assert "Thanks!" not in page.text, "alone, it is nothing to decide"
    start = (await browser.get("/ui")).text
    assert ("Use the blue kettle." in start, "ok thanks" in start, "Thanks!" in start) == (True, False, False)
    together = [value for value in page.values("chosen") if page.values("chosen").count(value) == 2]
    assert len(set(together)) == 2
    done = await judged(browser, page, "verify", "chosen", chosen=list(set(together)))
    assert "2 memories are verified." in done.text
    assert "Promote together" in done.text
    verified = await agent.recent(partitions=["untrusted"], verifications=["verified"], project="*")
    assert sorted(verified) == ["I shall use the blue one.", "Use the blue kettle."]


@pytest.mark.parametrize("text", ["ok thanks", "You’re welcome!", "Danke sehr!", "\N{THUMBS UP SIGN}"])
def test_a_courtesy_is_chatter(text: str) -> None:
    assert is_chatter(text)


@pytest.mark.parametrize(
    "text", ["ok, use tea", "Is it fine?", "no 7 is good", "No.", "Yes, that works", "Thanks, never push on Fridays."]
)
def test_what_says_something_is_none(text: str) -> None:
    assert not is_chatter(text)
