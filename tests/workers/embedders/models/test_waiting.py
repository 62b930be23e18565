from engramq.workers.embedders.batching import INTERACTIVE_BATCHES_IN_A_ROW, WaitingText, WaitingTexts, content_key
from engramq.workers.embedders.interface import BatchLimits

LIMITS = BatchLimits(texts=4, characters=100)


def item(text: str, *, interactive: bool) -> WaitingText:
    return WaitingText(content_key(text), text, interactive=interactive)


def filled(*, interactive: int = 0, bulk: int = 0) -> WaitingTexts:
    waiting = WaitingTexts()
    for number in range(bulk):
        waiting.add(item(f"bulk {number}", interactive=False))
    for number in range(interactive):
        waiting.add(item(f"query {number}", interactive=True))
    return waiting


def texts(batch: list[WaitingText]) -> list[str]:
    return [entry.text for entry in batch]


def test_a_batch_is_bounded_by_characters_and_a_long_text_travels_alone() -> None:
    waiting = WaitingTexts()
    for text in ("a" * 60, "b" * 41, "c" * 500, "d"):
        waiting.add(item(text, interactive=True))
    assert [len(waiting.take(LIMITS)) for _ in range(4)] == [1, 1, 1, 1]


def test_a_stream_of_queries_cannot_stop_bulk_for_good() -> None:
    waiting = filled(interactive=4 * (INTERACTIVE_BATCHES_IN_A_ROW + 2), bulk=5)
    kinds = [waiting.take(LIMITS)[0].interactive for _ in range(INTERACTIVE_BATCHES_IN_A_ROW + 2)]
    assert kinds == [True] * INTERACTIVE_BATCHES_IN_A_ROW + [False, True]


def test_dropping_a_settled_text_leaves_its_successor_in_line() -> None:
    waiting = WaitingTexts()
    settled, successor = item("same", interactive=True), item("same", interactive=True)
    waiting.add(settled)
    waiting.take(LIMITS)
    waiting.add(successor)
    assert not waiting.drop(settled)
    assert waiting.take(LIMITS) == [successor]


def test_dropping_says_whether_the_text_was_still_waiting() -> None:
    waiting = WaitingTexts()
    one = item("one", interactive=True)
    waiting.add(one)
    assert waiting.drop(one)
    assert not waiting.drop(one)
    assert waiting.take(LIMITS) == []
