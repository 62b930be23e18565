"""Hermes Agent's side of a memory provider, as release 0.19.0 has it: the abstract methods, and how a plugin is loaded.

`make test-providers` loads the same plugin into Hermes Agent itself.
"""

import importlib.util
import sys
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any, Final

from tests.architecture.source import ROOT

PLUGIN: Final = ROOT / "integrations" / "hermes" / "engramq"
LOADED_AS: Final = "_hermes_user_memory.engramq"


class MemoryProvider(ABC):
    """What every provider must have."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def is_available(self) -> bool: ...

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None: ...

    @abstractmethod
    def get_tool_schemas(self) -> list[dict[str, Any]]: ...


class Registry:
    """Takes the provider that a plugin registers."""

    provider: Any = None

    def register_memory_provider(self, provider: MemoryProvider) -> None:
        """Keep it; Hermes has one at a time."""
        assert isinstance(provider, MemoryProvider)
        self.provider = provider


def loaded_provider() -> Any:
    """Load the plugin's folder as Hermes loads one that a user has installed, and return its provider."""
    package, module = ModuleType("agent"), ModuleType("agent.memory_provider")
    module.MemoryProvider = MemoryProvider  # type: ignore[attr-defined]
    sys.modules.update({"agent": package, "agent.memory_provider": module})
    if LOADED_AS not in sys.modules:
        sys.modules["_hermes_user_memory"] = ModuleType("_hermes_user_memory")
        spec = importlib.util.spec_from_file_location(
            LOADED_AS, PLUGIN / "__init__.py", submodule_search_locations=[str(PLUGIN)]
        )
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[LOADED_AS] = made
        spec.loader.exec_module(made)
    registry = Registry()
    sys.modules[LOADED_AS].register(registry)
    return registry.provider
