"""Rankings against labelled evidence: recall at k, nDCG at 10 and mean reciprocal rank. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from typing import Final

CUTS: Final = (5, 10, 20, 50)
GAIN_CUT: Final = 10
ADVERSARIAL: Final = 5  # the category that the overall figures leave out


def score(ranking: Sequence[str], evidence: Set[str]) -> dict[str, float]:
    """Score one ranking; what comes twice counts where it comes first."""
    gains = [one in evidence for one in dict.fromkeys(ranking)]
    figures = {f"R@{cut}": sum(gains[:cut]) / len(evidence) for cut in CUTS}
    best = sum(_discount(place) for place in range(min(GAIN_CUT, len(evidence))))
    figures["nDCG@10"] = sum(_discount(place) for place, gain in enumerate(gains[:GAIN_CUT]) if gain) / best
    figures["MRR"] = next((1 / (place + 1) for place, gain in enumerate(gains) if gain), 0.0)
    return figures


def means(scored: Iterable[tuple[int, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the mean figures by category, and overall (without adversarial questions), each with its count n."""
    groups: dict[str, list[dict[str, float]]] = defaultdict(list)
    for category, figures in scored:
        groups[f"category {category}"].append(figures)
        if category != ADVERSARIAL:
            groups["overall"].append(figures)
    return {
        name: {"n": len(rows)} | {figure: sum(row[figure] for row in rows) / len(rows) for figure in rows[0]}
        for name, rows in sorted(groups.items())
    }


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
