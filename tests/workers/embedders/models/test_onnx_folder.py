"""Sentence models from a folder (`onnx:FOLDER`): what is read, how tokens are pooled, and what is refused by name."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.onnx_folder import GRAPHS, TOKENIZER, read_folder

WORDS = ("[UNK]", "query", ":", "warm", "red", "green", "blue")
TABLE = np.random.default_rng(5).normal(0, 1, (len(WORDS), 8)).astype(np.float32)


def graph(
    folder: Path, *, output: str = "last_hidden_state", extra: tuple[str, ...] = (), pooled: bool = False
) -> None:
    """Write a model whose tokens are the rows of a table; `pooled`: with their sum as its output."""
    ints = [helper.make_tensor_value_info(n, TensorProto.INT64, ["n", "t"]) for n in ("input_ids", *extra)]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows" if pooled else output])]
    constants = [numpy_helper.from_array(TABLE, "table")]
    shape: list[str | int] = ["n", "t", 8]
    if pooled:
        constants.append(numpy_helper.from_array(np.array([1], dtype=np.int64), "axis"))
        nodes.append(helper.make_node("ReduceSum", ["rows", "axis"], [output], keepdims=0))
        shape = ["n", 8]
    made = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
    model = helper.make_graph(nodes, "test", ints, [made], constants)
    onnx.save(helper.make_model(model, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / GRAPHS[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a graph and a tokenizer, and no more."""
    graph(tmp_path)
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / TOKENIZER))
    return tmp_path


def config(folder: Path, name: str, content: object) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def unit(*words: str) -> NDArray[np.float32]:
    mean = np.mean([TABLE[WORDS.index(word)] for word in words], axis=0)
    return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)


async def embedded(folder: Path, *texts: str, questions: bool = False) -> NDArray[np.float32]:
    model = create_embedder(f"onnx:{folder}")
    try:
        return await model.embed(texts, questions=questions)
    finally:
        await model.aclose()


async def test_tokens_are_averaged_to_unit_vectors_in_the_order_of_the_texts(folder: Path) -> None:
    made = await embedded(folder, "red green blue", "blue", "green red")
    expected = np.stack([unit("red", "green", "blue"), unit("blue"), unit("green", "red")])
    np.testing.assert_allclose(made, expected, atol=1e-6)


@pytest.mark.parametrize(("mode", "word"), [("cls_token", "red"), ("lasttoken", "blue")])
async def test_the_pooling_of_the_folder_is_used(folder: Path, mode: str, word: str) -> None:
    config(folder, "1_Pooling/config.json", {"word_embedding_dimension": 8, f"pooling_mode_{mode}": True})
    made = await embedded(folder, "red green blue", "red blue")
    np.testing.assert_allclose(made, np.stack([unit(word)] * 2), atol=1e-6)


async def test_a_graph_that_pools_by_itself_is_taken_as_it_is(folder: Path) -> None:
    graph(folder, output="sentence_embedding", pooled=True)
    np.testing.assert_allclose(await embedded(folder, "red green"), [unit("red", "green")], atol=1e-6)


async def test_prompts_and_length_are_those_of_the_folder(folder: Path) -> None:
    config(folder, "config_sentence_transformers.json", {"prompts": {"query": "query: ", "document": ""}})
    config(folder, "sentence_bert_config.json", {"max_seq_length": 3})
    np.testing.assert_allclose(await embedded(folder, "red green blue blue"), [unit("red", "green", "blue")], atol=1e-6)
    asked = await embedded(folder, "red green", questions=True)
    np.testing.assert_allclose(asked, [unit("query", ":", "red")], atol=1e-6)


async def test_the_identity_and_the_dimensions_are_known_once_it_is_loaded(folder: Path) -> None:
    model = create_embedder(f"onnx:{folder}")
    assert (model.spec.name, model.spec.dimensions) == (f"onnx:{folder}", 0)
    assert (await model.embed([])).shape == (0, 8)
    assert model.spec.dimensions == 8
    assert model.adopt(model.spec.sha256)
    assert not model.adopt("")
    config(folder, "sentence_bert_config.json", {"max_seq_length": 3})
    assert read_folder(folder).sha256 != model.spec.sha256
    await model.aclose()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await model.embed(["red"])


async def test_inputs_that_transformers_have_are_given_and_others_refused(folder: Path) -> None:
    graph(folder, extra=("attention_mask", "token_type_ids", "position_ids"))
    np.testing.assert_allclose(await embedded(folder, "red", "red blue"), [unit("red"), unit("red", "blue")], atol=1e-6)
    graph(folder, extra=("pixel_values",))
    with pytest.raises(EmbedderUnavailable, match="the model asks for pixel_values"):
        await embedded(folder, "red")


async def test_a_file_that_changes_after_the_start_is_refused(folder: Path) -> None:
    model = create_embedder(f"onnx:{folder}")
    (folder / GRAPHS[0]).write_bytes(b"another model")
    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx is damaged"):
        await model.warm()


def test_what_is_missing_is_named(folder: Path) -> None:
    (folder / TOKENIZER).unlink()
    with pytest.raises(ValueError, match=r"ENGRAMQ_EMBEDDER='onnx:.*has no tokenizer\.json"):
        create_embedder(f"onnx:{folder}")
    (folder / GRAPHS[0]).unlink()
    with pytest.raises(ValueError, match=r"has no model\.onnx and no onnx/model\.onnx"):
        create_embedder(f"onnx:{folder}")
    with pytest.raises(ValueError, match="must name an absolute folder"):
        create_embedder("onnx:models/mine")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "asks for Dense"),
        ("modules.json", {"type": "Dense"}, "is not what sentence-transformers writes"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "engramq pools by one of mean_tokens"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "not \\['cls"),
    ],
)
def test_what_engramq_does_not_compute_is_refused(folder: Path, name: str, content: object, reason: str) -> None:
    config(folder, name, content)
    with pytest.raises(ValueError, match=reason):
        create_embedder(f"onnx:{folder}")
    (folder / name).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"json cannot be read"):
        create_embedder(f"onnx:{folder}")
