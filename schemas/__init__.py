"""The contract between gateway and workers: messages, faults, words, limits, key names. No I/O."""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Unloaded(ModuleType):
    """A package that is loaded by the first use of what is in it, not by `import`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which the import itself looks for
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _load_when_used(package: str) -> None:
    if package not in sys.modules and (spec := find_spec(package)) is not None:
        module = sys.modules[package] = _Unloaded(package)
        module.__spec__, module.__path__ = spec, list(spec.submodule_search_locations or ())


# redis-py imports it, with most of cryptography, for a way to sign in that we do not take: 4 MB of each process.
_load_when_used("jwt")
