"""Which embedder a setting names, and that libraries of models report to nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engramq.workers.embedders.factory import create_embedder


@pytest.mark.parametrize(
    ("name", "expected", "dimensions"),
    [
        ("minilm", "minilm", 384),
        ("hash", "hash", 384),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small", 0),
        ("openai:text-embedding-3-small@512", "openai:text-embedding-3-small@512", 512),
        ("openai:nomic-embed-text:v1.5", "openai:nomic-embed-text:v1.5", 0),
        ("openai:BAAI/bge-m3@1024", "openai:BAAI/bge-m3@1024", 1024),
    ],
)
async def test_each_accepted_name_gives_the_embedder_of_that_name(name: str, expected: str, dimensions: int) -> None:
    embedder = create_embedder(name, "http://127.0.0.1:9/v1")
    assert (embedder.spec.name, embedder.spec.dimensions) == (expected, dimensions)
    await embedder.aclose()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "MiniLM",
        "minilm:large",
        "hash:1",
        "openai",
        "openai:",
        "openai:@512",
        "openai:m@",
        "openai:m@0",
        "openai:m@x",
    ],
)
async def test_any_other_name_is_refused_naming_the_setting_and_what_it_accepts(name: str) -> None:
    with pytest.raises(ValueError, match=r"ENGRAMQ_EMBEDDER=.*minilm, openai:<model>"):
        create_embedder(name)


@pytest.mark.promise("AG-20")
async def test_a_model_of_others_needs_an_endpoint_or_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENGRAMQ_EMBEDDER_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"'openai:m@3' has neither ENGRAMQ_EMBEDDER_URL nor ENGRAMQ_EMBEDDER_KEY"):
        create_embedder("openai:m@3")
    await create_embedder("openai:m", key="k").aclose()
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    await create_embedder("openai:m").aclose()


@pytest.mark.parametrize("url", ["localhost:11434", "ftp://host/v1", "http://", "file:///etc/passwd"])
async def test_a_url_that_cannot_be_asked_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="ENGRAMQ_EMBEDDER_URL"):
        create_embedder("openai:model", url)


async def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="ENGRAMQ_EMBEDDER_KEY") as refusal:
        create_embedder("openai:model", key="secret-line\nX-Injected: 1")
    assert "secret" not in str(refusal.value)


def test_choosing_an_embedder_imports_neither_the_model_runtime_nor_the_http_client() -> None:
    code = (
        "import sys; from engramq.workers.embedders.factory import create_embedder; create_embedder('minilm'); "
        "sys.exit(int(bool({'onnxruntime', 'tokenizers', 'httpx'} & sys.modules.keys())))"
    )
    finished = subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=30, check=False)
    assert finished.returncode == 0


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
