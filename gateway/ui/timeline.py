"""Draw the timeline of a list: a bar for each day, month or year, which leads to the memories of then."""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.memories import MemoryFilters
from engramq.gateway.ui.request import PageRequest

COUNTED: Final = 20_000  # memories at most, where no totals are kept of what is asked for: some 20 ms
_TICKS_APART: Final = 4  # bars: what is written below one is as wide as some


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: the span that it stands for, in words; how many memories; the address of these; what is written below.

    `share` is its height, in percent of the highest one.
    """

    name: str
    count: int
    share: float
    address: str
    tick: str
    is_chosen: bool


async def show_timeline(page: PageRequest) -> Response:
    """Show the timeline of all memories that pass the filters; of a day that is chosen the days around it, too."""
    filters = MemoryFilters.of(page)
    around = _widen_to_month(filters)
    counted = await page.ask("count_memories", **around.of_list, at_most=COUNTED)
    bars = _bars(counted, filters)
    total = sum(bar.count for bar in bars)
    return page.render(
        "timeline.html",
        bars=bars,
        unit=counted["unit"],
        total=total,
        is_cut=counted["is_cut"],
        longest=max(bars, key=lambda bar: bar.count, default=None),
        wider=around.address if around != filters else "",
        all_times=replace(filters, since="", until="").address if filters.since or filters.until else "",
    )


def _widen_to_month(filters: MemoryFilters) -> MemoryFilters:
    """Return the filters with the month in the place of a day: a timeline of one bar leads nowhere."""
    if filters.since != filters.until:
        return filters
    try:
        chosen = date.fromisoformat(filters.since)
    except ValueError:
        return filters
    return replace(filters, since=str(chosen.replace(day=1)), until=str(_last_of(chosen, "month")))


def _bars(counted: Body, filters: MemoryFilters) -> list[Bar]:
    unit, counts = counted["unit"], {span["begins"]: span["memory_count"] for span in counted["spans"]}
    most, last_tick = max(counts.values(), default=0), -_TICKS_APART
    bars: list[Bar] = []
    spans = list(_spans(unit, sorted(counts)))
    for place, first in enumerate(spans):
        span = replace(filters, since=str(first), until=str(_last_of(first, unit)))
        count = counts.get(str(first), 0)
        is_end = place in (0, len(spans) - 1)
        begins = is_end or first == (first.replace(day=1) if unit == "day" else first.replace(month=1))
        has_tick = begins and place - last_tick >= _TICKS_APART
        last_tick = place if has_tick else last_tick
        bars.append(
            Bar(
                name=_name(first, unit),
                count=count,
                share=100 * count / most,
                address=span.address,
                tick=_tick(first, unit) if has_tick else "",
                is_chosen=span == filters,
            )
        )
    return bars


def _spans(unit: str, begins: list[str]) -> Iterator[date]:
    """Yield the first day of each span from the first with memories to the last; of years those with memories."""
    days = [date.fromisoformat(day) for day in begins]
    if unit == "year" or not days:
        yield from days
        return
    first = days[0]
    while first <= days[-1]:
        yield first
        first = _last_of(first, unit) + timedelta(days=1)


def _last_of(first: date, unit: str) -> date:
    if unit == "day":
        return first
    month = 12 if unit == "year" else first.month
    return first.replace(month=month, day=monthrange(first.year, month)[1])


def _name(first: date, unit: str) -> str:
    return str(first)[: {"day": 10, "month": 7, "year": 4}[unit]]


def _tick(first: date, unit: str) -> str:
    return {"day": f"{first.day} {first:%b}", "month": f"{first:%b %Y}", "year": str(first.year)}[unit]
