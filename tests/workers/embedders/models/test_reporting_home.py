"""The libraries of models report to nobody: the product uses no network that it was not told to use."""

import os
import subprocess
import sys
from pathlib import Path

_EMBEDS = """
import asyncio
from engramq.workers.embedders.minilm import MiniLmEmbedder

async def main():
    model = MiniLmEmbedder()
    await model.embed(["a text"])
    await model.aclose()

asyncio.run(main())
"""


def test_the_runtime_of_models_keeps_no_reports_to_send(tmp_path: Path) -> None:
    """Left alone, onnxruntime keeps an id of the machine and a queue of events below ~/.cache, and sends them."""
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _EMBEDS], env=kept | home, check=True, timeout=60)
    assert sorted(tmp_path.rglob("*")) == []
