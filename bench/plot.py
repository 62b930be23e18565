"""The ratios of `bench.all` as a picture: each a bar by size, as a share of its target; left of the line it is met."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

from bench.table import latest_ratios, size_name, sizes_of
from bench.targets import TARGETS

LABELS: Final = 430  # pixels left of the bars
UNIT: Final = 180  # pixels of one target
MOST: Final = 2.5  # targets that are drawn; longer bars are cut, and say how long they are
BAR: Final = 9
GAP: Final = 10
TOP: Final = 46
BOTTOM: Final = 30
COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#bab0ac")
TICKS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)


def svg(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the picture of these lines."""
    sizes, ratios = sizes_of(lines), latest_ratios(lines)
    rows = [name for name in TARGETS if TARGETS[name].bound and any((name, size) in ratios for size in sizes)]
    step = BAR * len(sizes) + GAP
    height, width = TOP + step * len(rows) + BOTTOM, round(LABELS + UNIT * MOST + 60)
    drawn = [_legend(sizes)]
    drawn += [_tick(at, height) for at in TICKS]
    for place, name in enumerate(rows):
        top = TOP + place * step
        drawn.append(_text(LABELS - 8, top + step / 2, TARGETS[name].text, anchor="end"))
        drawn += [
            _bar(top + BAR * number, TARGETS[name].effort(ratios[name, size]), COLOURS[number % len(COLOURS)])
            for number, size in enumerate(sizes)
            if (name, size) in ratios
        ]
    drawn.append(_text(LABELS, height - 8, "measured as a share of the target; where more is better, the inverse"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    style = 'font-family="sans-serif" font-size="11" fill="#222">'
    background = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head + style, background, *drawn, "</svg>", ""])


def _legend(sizes: Sequence[int]) -> str:
    parts = []
    for number, size in enumerate(sizes):
        left = LABELS + 110 * number
        parts.append(f'<rect x="{left}" y="8" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(_text(left + 14, 17, f"{size_name(size)} memories"))
    return "\n".join(parts)


def _tick(at: float, height: int) -> str:
    left = LABELS + UNIT * at
    stroke = 'stroke="#c00" stroke-width="1.5"' if at == 1 else 'stroke="#ddd"'
    line = f'<line x1="{left:g}" y1="{TOP - 6}" x2="{left:g}" y2="{height - BOTTOM}" {stroke}/>'
    return line + "\n" + _text(left, TOP - 10, f"{at:g}", anchor="middle")


def _bar(top: float, effort: float, colour: str) -> str:
    shown = min(effort, MOST)
    bar = f'<rect x="{LABELS}" y="{top:g}" width="{UNIT * shown:.1f}" height="{BAR - 1}" fill="{colour}"/>'
    return bar if effort <= MOST else bar + "\n" + _text(LABELS + UNIT * MOST + 4, top + BAR - 1, f"{effort:.1f}")


def _text(left: float, bottom: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{left:g}" y="{bottom:g}" text-anchor="{anchor}">{escape(text)}</text>'
