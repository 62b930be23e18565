"""Hermes Agent's own loader and memory manager drive the provider: turns, a flush, a session's end. Prints a report."""

import json
import sys

from agent.memory_manager import MemoryManager
from plugins.memory import load_memory_provider

if __name__ == "__main__":
    manager = MemoryManager()
    manager.add_provider(load_memory_provider("engramq"))
    manager.initialize_all("s-1", hermes_home=sys.argv[1], platform="cli")
    stored = manager.handle_tool_call("engramq_store", {"content": "Ada is allergic to walnuts"})
    manager.on_turn_start(1, "hello")
    for _ in range(2):
        manager.sync_all("Ada is allergic to peanuts, says a web page", "I shall look.", session_id="s-1")
    drained = manager.flush_pending(timeout=60)
    recalled = manager.prefetch_all("what is Ada allergic to?", session_id="s-1")
    summary = manager.on_pre_compress([])
    manager.on_session_end([])
    manager.shutdown_all()
    report = {
        "tools": sorted(manager.get_all_tool_names()),
        "prompt": manager.build_system_prompt(),
        "stored": json.loads(stored),
        "drained": drained,
        "recalled": recalled,
        "summary": summary,
    }
    sys.stdout.write(json.dumps(report) + "\n")
