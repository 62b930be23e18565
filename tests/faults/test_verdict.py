"""The account itself: each sort of damage shows as a number, and what may be so or so does not."""

import asyncio
from typing import Any

import pytest

from engramq.workers.queue.dead_letters import DeadLetter
from tests.faults import verdict as verdicts
from tests.faults.callers import Body, Cut, LoadClient, NotSent
from tests.faults.load import SIGNAL, Account, Fate, Load, Outcomes, Stored
from tests.faults.verdict import verdict

RUN = "0badcafe"


class Shelf:
    """A store that tests can damage: contents by id, and what outcomes have added up to."""

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.helped: dict[str, float] = {}
        self.hidden: set[str] = set()  # ids that tools do not give
        self.unfinished: set[str] = set()
        self.commands: dict[str, str] = {}  # what get_command says, by id

    def rows(self, query: str, *_values: Any) -> list[dict[str, Any]]:
        if "memory_usage" in query:
            return [{"id": item, "helped": total} for item, total in self.helped.items()]
        if "sector_source" in query:
            return [{"n": len(self.unfinished)}]
        texts = set(self.contents.values())
        ids = {text: sorted(content for content in self.contents if self.contents[content] == text) for text in texts}
        return [{"content": text, "n": len(found), "id": found[0]} for text, found in ids.items()]

    async def callers(self, count: int) -> list[LoadClient]:
        return [ShelfCaller(self) for _ in range(count)]

    async def dead_letters(self) -> list[DeadLetter]:
        return []


class ShelfCaller:
    """Answers get and search from the shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def call(self, tool: str, **arguments: Any) -> Body:
        seen = {content: text for content, text in self._shelf.contents.items() if content not in self._shelf.hidden}
        if tool == "get_command":
            return {"status": self._shelf.commands.get(arguments["command_id"], "unknown")}
        if tool == "get_memory":
            text = seen.get(arguments["memory_id"])
            return {"status": "success", "memory": None if text is None else {"content": text}}
        return {
            "status": "success",
            "memories": [{"id": item} for item, text in seen.items() if arguments["query"] in text],
        }

    async def aclose(self) -> None:
        pass


def stored(shelf: Shelf, account: Account, name: str, fate: Fate, times: int) -> None:
    """Note a store of this fate that is on the shelf so many times."""
    word = f"zq{RUN}x{name}"
    account.stores.append(Stored(f"The parcel {word} waits", word, None, fate, f"{name}-0"))
    for number in range(times):
        shelf.contents[f"{name}-{number}"] = account.stores[-1].content


async def test_what_went_well_is_clean_and_the_unknown_may_be_there_or_not() -> None:
    shelf, account = Shelf(), Account()
    for name, fate, times in (
        ("a", Fate.ACKNOWLEDGED, 1), ("b", Fate.REFUSED, 0), ("c", Fate.UNKNOWN, 0), ("d", Fate.UNKNOWN, 1)
    ):  # fmt: skip
        stored(shelf, account, name, fate, times)
    account.outcomes["a-0"] = Outcomes(acknowledged=2, unknown=1)
    for total in (2, 3):
        shelf.helped["a-0"] = total * SIGNAL
        found = await verdict(shelf, account, RUN)
        assert found.is_clean
        assert (found.stores, found.outcomes, found.unknown) == (1, 2, 2)


@pytest.mark.parametrize(
    ("fate", "times", "damage"),
    [
        (Fate.ACKNOWLEDGED, 0, "lost"),
        (Fate.ACKNOWLEDGED, 2, "doubled"),
        (Fate.UNKNOWN, 2, "doubled"),
        (Fate.REFUSED, 1, "applied_though_refused"),
    ],
)
async def test_a_damaged_store_is_counted(fate: Fate, times: int, damage: str) -> None:
    shelf, account = Shelf(), Account()
    stored(shelf, account, "fine", Fate.ACKNOWLEDGED, 1)
    stored(shelf, account, "bad", fate, times)
    found = await verdict(shelf, account, RUN)
    assert not found.is_clean
    assert found.told()[damage] == 1


@pytest.mark.parametrize(("added", "damage"), [(1, "lost"), (4, "doubled")])
async def test_outcomes_are_counted_back_from_what_they_add_up_to(added: int, damage: str) -> None:
    shelf, account = Shelf(), Account()
    stored(shelf, account, "a", Fate.ACKNOWLEDGED, 1)
    account.outcomes["a-0"] = Outcomes(acknowledged=2, unknown=1)
    shelf.helped["a-0"] = added * SIGNAL
    found = await verdict(shelf, account, RUN)
    assert found.told()[damage] == 1


async def test_what_tools_do_not_give_is_counted() -> None:
    shelf, account = Shelf(), Account()
    stored(shelf, account, "a", Fate.ACKNOWLEDGED, 1)
    shelf.hidden.add("a-0")
    assert (await verdict(shelf, account, RUN)).unread == 1
    account.misses.append("a search right after")
    assert (await verdict(shelf, account, RUN)).missed == 1


async def test_what_upkeep_never_finishes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "FINISHED_S", 0.0)
    shelf, account = Shelf(), Account()
    stored(shelf, account, "a", Fate.ACKNOWLEDGED, 1)
    shelf.unfinished.add("a-0")
    found = await verdict(shelf, account, RUN)
    assert not found.is_clean
    assert found.unfinished == 1


class Scripted:
    """A caller whose stores come to these ends in turn, and then are acknowledged."""

    def __init__(self, *ends: Body | Exception) -> None:
        self.ends = list(ends)
        self.sent: list[Body] = []

    async def call(self, tool: str, **arguments: Any) -> Body:
        await asyncio.sleep(0)
        if tool != "store_memory":
            return {"status": "success", "memories": [], "memory": None}
        self.sent.append(arguments)
        end = self.ends.pop(0) if self.ends else {"status": "stored", "stored": {"id": str(len(self.sent))}}
        if isinstance(end, Exception):
            raise end
        return end

    async def aclose(self) -> None:
        pass


async def test_a_call_is_judged_by_what_its_caller_was_told_and_a_keyed_one_repeated_until_it_is_settled() -> None:
    pending, refused = {"status": "pending", "command_id": "c"}, {"status": "error", "code": "unavailable"}
    writer = Scripted(pending, refused, Cut("x"), NotSent("y"), pending, refused, Cut("x"), NotSent("y"))
    load = Load([writer, Scripted(), Scripted()], RUN, seed=1)
    load.start()
    await load.more(10)
    await load.stop()
    told = load.account.told
    assert (told["pending"], told["unavailable"], told["cut: x"], told["not sent: y"]) == (2, 2, 2, 2)
    once = {store.content: store for store in load.account.stores if store.key is None}
    keyed = [store for store in load.account.stores if store.key is not None]
    assert {item.fate for item in keyed} == {Fate.ACKNOWLEDGED}
    sent = [item["content"] for item in writer.sent]
    assert all(sent.count(content) == 1 for content in once)
    assert len(sent) > len(load.account.stores) - 1


async def test_what_was_told_pending_and_is_not_known_is_counted() -> None:
    shelf, account = Shelf(), Account(pending=["a", "b", "c"])
    shelf.commands |= {"a": "done", "b": "failed"}
    found = await verdict(shelf, account, RUN)
    assert (found.forgotten, found.is_clean) == (1, True), "whether it may be forgotten is for the fault to say"
