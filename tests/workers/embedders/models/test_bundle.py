import hashlib

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from engramq.workers.embedders import minilm
from tools.minilm import carrier, graph, int8

RANDOM = np.random.default_rng(7)


def test_the_committed_files_are_the_recorded_ones() -> None:
    for name, recorded in (
        (minilm.MODEL_FILE, minilm.MODEL_SHA256),
        (minilm.INT8_FILE, minilm.INT8_SHA256),
        (minilm.TOKENIZER_FILE, minilm.TOKENIZER_SHA256),
    ):
        assert hashlib.sha256((minilm.FOLDER / name).read_bytes()).hexdigest() == recorded


def test_the_notices_name_every_checksum_and_the_licence_is_there() -> None:
    notice = (minilm.FOLDER / "MODEL.md").read_text(encoding="utf-8")
    shipped = minilm.MODEL_SHA256, minilm.INT8_SHA256, minilm.TOKENIZER_SHA256
    for checksum in (carrier.WEIGHTS_SHA256, carrier.TOKENIZER_SHA256, *shipped):
        assert checksum in notice
    assert "Apache License" in (minilm.FOLDER / "LICENSE.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [minilm.MODEL_FILE, minilm.INT8_FILE])
def test_the_models_use_standard_operators_only_and_the_contract_of_their_names(name: str) -> None:
    model = onnx.load(minilm.FOLDER / name)
    assert [(item.domain, item.version) for item in model.opset_import] == [("", graph.OPSET)]
    assert {node.domain for node in model.graph.node} == {""}
    assert [item.name for item in model.graph.input] == ["input_ids", "attention_mask"]
    assert [item.name for item in model.graph.output] == ["embedding"]


def test_quantising_errs_by_at_most_half_a_step() -> None:
    matrix = RANDOM.normal(size=(8, 64)).astype(np.float32)
    matrix[3, :32] = 0
    values, scale = graph.quantise(matrix, 32)
    restored = (values.reshape(8, 2, 32) * scale[:, :, None]).reshape(8, 64)
    assert np.all(np.abs(restored - matrix) <= np.repeat(scale, 32, axis=1) * 0.5001)
    assert not restored[3, :32].any()


def test_equal_weights_give_equal_bytes() -> None:
    weights = small_weights()
    model = graph.build(weights)
    assert model == graph.build(weights)
    assert int8.build(weights, model, "model.onnx") == int8.build(weights, model, "model.onnx")


def test_no_sum_of_two_products_overflows_sixteen_bits() -> None:
    """CPUs without VNNI add two products of an activation (8 bits) and a weight up in 16 bits."""
    weights = {
        item.name: numpy_helper.to_array(item) for item in onnx.load(minilm.FOLDER / minilm.INT8_FILE).graph.initializer
    }
    dense = [weight for name, weight in weights.items() if name.endswith(".int8") and name != int8.TABLE]
    assert len(dense) == 4 * graph.LAYERS
    assert max(2 * 255 * int(np.abs(item.astype(np.int32)).max()) for item in dense) < 2**15


def small_weights() -> graph.Weights:
    """Random weights of the right shapes with a vocabulary of eight: all of the graph, little of the size."""
    narrow, wide = graph.HIDDEN, 4 * graph.HIDDEN
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (8, narrow),
        "embeddings.position_embeddings.weight": (16, narrow),
        "embeddings.token_type_embeddings.weight": (2, narrow),
        "embeddings.LayerNorm.weight": (narrow,),
        "embeddings.LayerNorm.bias": (narrow,),
    }
    for layer in range(graph.LAYERS):
        prefix = f"encoder.layer.{layer}"
        for part, (rows, columns) in {
            "attention.self.query": (narrow, narrow),
            "attention.self.key": (narrow, narrow),
            "attention.self.value": (narrow, narrow),
            "attention.output.dense": (narrow, narrow),
            "intermediate.dense": (wide, narrow),
            "output.dense": (narrow, wide),
        }.items():
            shapes |= {f"{prefix}.{part}.weight": (rows, columns), f"{prefix}.{part}.bias": (rows,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{prefix}.{part}.weight": (narrow,), f"{prefix}.{part}.bias": (narrow,)}
    return {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
