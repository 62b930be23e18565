"""A rule is written once, in a module that is named for it: few files mention each concern, and never more."""

import re
from typing import Final

import pytest

from tests.architecture.source import modules

HOMES: Final = re.compile(r"^from engramq\.workers\.(?:trust|db\.privacy|db\.viewers) import .*$", re.MULTILINE)
# How many modules of the product mention a concern, in code or prose; to import from its home is no mention. A ceiling
# may only sink.
MOST: Final = {
    "trust": (r"trust", 115),
    "time": (r"as_of|valid_(?:from|until)|occurred_at|expires|active_hours|(?<!as)timezone", 69),
    "projects": (r"project", 102),
    "private": (r"private|privacy|visibility|(?<!re)viewer", 79),
    "undo": (r"undo|restor(?!e_answer)|way_back|taking_back", 56),
}


@pytest.mark.parametrize("concern", MOST)
def test_no_more_modules_mention_a_concern(concern: str) -> None:
    words, most = MOST[concern]
    mentioning = [module.name for module in modules() if re.search(words, HOMES.sub("", module.source), re.I)]
    assert len(mentioning) <= most, f"{len(mentioning)} modules mention {concern}; ask the module that has its rules"
