"""Patterns that are compiled late do as those that are compiled at once."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from types import ModuleType

import pytest

import engramq.gateway
import engramq.workers
from engramq.schemas.patterns import LatePattern, compile_late


def late_patterns(value: object) -> Iterator[LatePattern]:
    """Yield the late patterns of a value, and of what it holds."""
    if isinstance(value, LatePattern):
        yield value
    elif isinstance(value, Mapping):
        yield from late_patterns(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from late_patterns(each)


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def test_a_pattern_is_compiled_by_its_first_use_and_then_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_now = re.compile

    def note(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return compile_now(text, flags)

    monkeypatch.setattr(re, "compile", note)
    pattern = compile_late(r"(?P<first>\w)\w*", re.IGNORECASE | re.ASCII)
    assert compiled == []
    assert [found["first"] for found in pattern.finditer("Äb cd")] == ["b", "c"]
    assert (pattern.search("é") is None, pattern.sub("-", "ab é"), pattern.flags) == (True, "- é", 258)
    assert (pattern.search("x") is not None, set(compiled)) == (True, {r"(?P<first>\w)\w*"})
    assert len(compiled) == 4  # finditer, search, sub, flags: once each


def test_what_is_wrong_with_a_pattern_is_said_at_its_first_use() -> None:
    with pytest.raises(re.error, match="unterminated"):
        compile_late("(").search("x")


@pytest.mark.parametrize("package", [engramq.gateway, engramq.workers], ids=["gateway", "workers"])
def test_every_late_pattern_of_the_product_can_be_compiled(package: ModuleType) -> None:
    found = [pattern for module in modules(package) for pattern in late_patterns(tuple(vars(module).values()))]
    assert len(found) > 20
    assert all(re.compile(*pattern._made_of) for pattern in found)
