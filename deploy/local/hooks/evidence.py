"""Tell beside a memory whether the files that it cites are as they were, within what a client waits for its hook."""

import time
from collections.abc import Sequence
from typing import Any, Final

from engramq.deploy.local.hooks.turns import harmless

GROUNDED: Final = "grounded"  # the field of a hit that holds what is told
_MOST_S: Final = 0.4  # of the 1.7 s of a hook
_LEFT_S: Final = 0.3  # for what comes after
_PLACE_CHARS: Final = 120
_WORDS: Final = {
    "fresh": "[{} as cited] ",
    "changed": "[OUT OF DATE? {} has changed since: verify before use] ",
    "gone": "[OUT OF DATE? {} is gone: verify before use] ",
    "unknown": "[{}: unknown whether as cited] ",
}


def mark(hits: Sequence[dict[str, Any]], folder: str, project: str, until: float) -> None:
    """Give hits that cite files, or memories that hold no longer, the words that are told before their contents."""
    citing = [(hit, evidence) for hit in hits if (evidence := _evidence_of(hit))]
    if not citing or not folder:
        return
    # Most memories cite nothing, and a hook does without.
    from engramq.evidence.compare import CheckedCitation, Cited, compare, worst_of  # noqa: PLC0415 - see above

    budget_s = max(0.0, min(_MOST_S, until - time.monotonic() - _LEFT_S))
    here = [Cited(evidence, bool(project) and hit.get("project") == project) for hit, evidence in citing]
    for (hit, evidence), found in zip(citing, compare(here, folder, budget_s), strict=True):
        told = [
            CheckedCitation(str(citation.get("state") or each.state), each.place) if citation.get("memory_id") else each
            for citation, each in zip(evidence, found, strict=True)
        ]
        worst = worst_of(told)
        citation = evidence[told.index(worst)] if worst is not None else {}
        if worst is not None:
            hit[GROUNDED] = _WORDS[worst.state].format(_place(citation, worst.place))


def _evidence_of(hit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what of a hit's evidence can be told of: files, and memories."""
    evidence = hit.get("evidence")
    listed = evidence if isinstance(evidence, list) else []
    return [each for each in listed if isinstance(each, dict) and (each.get("path") or each.get("memory_id"))]


def _place(citation: dict[str, Any], now: str) -> str:
    if not citation.get("path"):
        return f"memory {citation['memory_id']}"
    lines = f":{citation['lines']}" if citation.get("lines") else ""
    moved = f" (now {now})" if now else ""
    return harmless(f"{citation['path']}{lines}{moved}")[:_PLACE_CHARS]
