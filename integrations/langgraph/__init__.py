"""LangGraph's store over engramq: `from engramq.langgraph import EngramqStore`. Needs `engramq[langgraph]`."""

from engramq.langgraph.store import EngramqStore

__all__ = ["EngramqStore"]
