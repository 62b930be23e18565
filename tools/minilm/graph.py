"""The ONNX graph of all-MiniLM-L6-v2: BERT of 6 layers, mean pooling and L2 norm inside.

Knows: the architecture, the standard ONNX operators, and how a weight is stored in 8 bits. Refuses to know: where
weights come from and who runs the graph. Inputs `input_ids`, `attention_mask` int64 [n, tokens]; output `embedding`
float32 [n, 384].

Only weights are quantised, never activations: dynamic int8 has one activation scale per batch, so that a text's vector
would depend on its company. Dense matrices carry one scale per output channel and 32 inputs, and are folded back to
float32 when the session loads (one scale per channel alone costs 1.3 MB less and loses: mean cosine .9994 instead of
.9998). The token table carries one scale per token and stays int8 in memory, since only the rows of a batch are ever
needed as float32 (35 MB less).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

HIDDEN = 384
HEADS = 12
HEAD_WIDTH = HIDDEN // HEADS
LAYERS = 6
LAYER_NORM_EPSILON = 1e-12
# Inputs that share a scale in a dense matrix.
BLOCK = 32
# Standard operators only. 21 is the first opset whose DequantizeLinear knows blocks; IR version 10 came with it.
OPSET = 21
IR_VERSION = 10

Tensor = NDArray[np.float32]
Weights = dict[str, Tensor]


def quantise(matrix: Tensor, block: int) -> tuple[NDArray[np.int8], Tensor]:
    """Return int8 [rows, columns] and float32 scales [rows, columns / block].

    Symmetric, round half to even, zero stays zero. Elementwise IEEE arithmetic only, so that every machine makes the
    same bytes.
    """
    blocks = matrix.reshape(matrix.shape[0], -1, block)
    largest = np.abs(blocks).max(axis=-1)
    scale = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
    return np.rint(blocks / scale[:, :, None]).astype(np.int8).reshape(matrix.shape), scale


class Graph:
    """Collect nodes and initializers under short names; each method returns the name of its result."""

    def __init__(self, *, quantised: bool) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._quantised = quantised

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def matrix(self, name: str, value: Tensor) -> str:
        """A dense matrix [in, out] as the graph multiplies with it."""
        if not self._quantised:
            return self.constant(name, value)
        values, scale = quantise(value.T, BLOCK)
        inputs = [self.constant(f"{name}.int8", values.T), self.constant(f"{name}.scale", scale.T)]
        return self.op("DequantizeLinear", inputs, name, axis=0, block_size=BLOCK)

    def rows(self, name: str, table: Tensor, ids: str) -> str:
        """Look up rows of a table [entries, width]."""
        if not self._quantised:
            return self.op("Gather", [self.constant(name, table), ids], f"{name}.rows")
        values, scale = quantise(table, table.shape[1])
        found = self.op("Gather", [self.constant(f"{name}.int8", values), ids], f"{name}.rows_int8")
        wide = self.op("Cast", [found], f"{name}.rows_wide", to=TensorProto.FLOAT)
        scales = self.op("Gather", [self.constant(f"{name}.scale", scale), ids], f"{name}.rows_scale")
        return self.op("Mul", [wide, scales], f"{name}.rows")

    def dense(self, name: str, value: str, matrix: Tensor, bias: Tensor) -> str:
        product = self.op("MatMul", [value, self.matrix(f"{name}.weight", matrix)], f"{name}.product")
        return self.op("Add", [product, self.constant(f"{name}.bias", bias)], f"{name}.out")

    def dense_parts(self, names: list[str], value: str, matrices: list[Tensor], biases: list[Tensor]) -> Iterator[str]:
        """Several dense layers on the same value, each made when it is asked for."""
        for name, matrix, bias in zip(names, matrices, biases, strict=True):
            yield self.dense(name, value, matrix, bias)

    def norm(self, name: str, value: str, weights: Weights, source: str) -> str:
        scale = self.constant(f"{name}.weight", weights[f"{source}.weight"])
        bias = self.constant(f"{name}.bias", weights[f"{source}.bias"])
        return self.op("LayerNormalization", [value, scale, bias], f"{name}.out", axis=-1, epsilon=LAYER_NORM_EPSILON)


def build(weights: Weights, *, quantised: bool = True) -> bytes:
    """Return the serialised model; equal weights give equal bytes. `quantised=False` is the float32 reference."""
    return build_with(Graph(quantised=quantised), weights)


def build_with(graph: Graph, weights: Weights) -> bytes:
    """Return the model that this graph makes of its operators."""
    hidden = _embeddings(graph, weights)
    bias = _mask_bias(graph)
    for layer in range(LAYERS):
        hidden = _layer(graph, weights, f"layer{layer}", f"encoder.layer.{layer}", hidden, bias)
    _pool(graph, hidden)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "all-MiniLM-L6-v2",
            [
                helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "tokens"]),
                helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["n", "tokens"]),
            ],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", HIDDEN])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="engramq",
    )
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _embeddings(graph: Graph, weights: Weights) -> str:
    tokens = graph.rows("tokens", weights["embeddings.word_embeddings.weight"], "input_ids")
    # Every text is segment 0, so its one row is added to each position here instead of at each run.
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    positions = graph.constant("positions", weights["embeddings.position_embeddings.weight"] + segment)
    length = graph.op("Shape", ["input_ids"], "length", start=1, end=2)
    first = graph.constant("zero", np.array([0], dtype=np.int64))
    used = graph.op("Slice", [positions, first, length, first], "positions.used")
    total = graph.op("Add", [tokens, used], "embeddings.sum")
    return graph.norm("embeddings", total, weights, "embeddings.LayerNorm")


def _mask_bias(graph: Graph) -> str:
    mask = graph.op("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    one = graph.constant("one", np.array(1, dtype=np.float32))
    lowest = graph.constant("lowest", np.array(np.finfo(np.float32).min, dtype=np.float32))
    padding = graph.op("Mul", [graph.op("Sub", [one, mask], "padding"), lowest], "padding.bias")
    axes = graph.constant("mask.axes", np.array([1, 2], dtype=np.int64))
    return graph.op("Unsqueeze", [padding, axes], "mask.bias")


def _layer(graph: Graph, weights: Weights, name: str, source: str, hidden: str, bias: str) -> str:
    context = _attention(graph, weights, name, f"{source}.attention.self", hidden, bias)

    def dense(part: str, value: str, origin: str) -> str:
        matrix, offset = weights[f"{source}.{origin}.weight"].T, weights[f"{source}.{origin}.bias"]
        return graph.dense(f"{name}.{part}", value, matrix, offset)

    attended = dense("attended", context, "attention.output.dense")
    residual = graph.op("Add", [attended, hidden], f"{name}.attended.sum")
    middle = graph.norm(f"{name}.attended.norm", residual, weights, f"{source}.attention.output.LayerNorm")
    widened = graph.op("Gelu", [dense("wide", middle, "intermediate.dense")], f"{name}.gelu")
    residual = graph.op("Add", [dense("narrow", widened, "output.dense"), middle], f"{name}.sum")
    return graph.norm(f"{name}.norm", residual, weights, f"{source}.output.LayerNorm")


def _attention(graph: Graph, weights: Weights, name: str, source: str, hidden: str, bias: str) -> str:
    shape = "heads.shape"
    if not any(known.name == shape for known in graph.initializers):
        graph.constant(shape, np.array([0, 0, HEADS, HEAD_WIDTH], dtype=np.int64))
        graph.constant("merged.shape", np.array([0, 0, HIDDEN], dtype=np.int64))
    # The scale of the scores, 1 / sqrt(32), is part of the query's weights: one pass over [tokens, tokens] less.
    scale = np.float32(HEAD_WIDTH**-0.5)

    whole = np.float32(1)
    factors = {"query": scale, "key": whole, "value": whole}
    flat = graph.dense_parts(
        [f"{name}.{part}" for part in factors],
        hidden,
        [weights[f"{source}.{part}.weight"].T * factor for part, factor in factors.items()],
        [weights[f"{source}.{part}.bias"] * factor for part, factor in factors.items()],
    )

    def heads(part: str, whole: str, order: list[int]) -> str:
        split = graph.op("Reshape", [whole, shape], f"{name}.{part}.split")
        return graph.op("Transpose", [split], f"{name}.{part}.heads", perm=order)

    query, key, value = (
        heads(part, item, order)
        for part, item, order in zip(factors, flat, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = graph.op("Add", [graph.op("MatMul", [query, key], f"{name}.scores.raw"), bias], f"{name}.scores")
    shares = graph.op("Softmax", [scores], f"{name}.shares", axis=-1)
    mixed = graph.op("MatMul", [shares, value], f"{name}.mixed")
    turned = graph.op("Transpose", [mixed], f"{name}.turned", perm=[0, 2, 1, 3])
    return graph.op("Reshape", [turned, "merged.shape"], f"{name}.context")


def _pool(graph: Graph, hidden: str) -> None:
    last = graph.constant("last", np.array([-1], dtype=np.int64))
    tokens = graph.constant("tokens.axis", np.array([1], dtype=np.int64))
    weight = graph.op("Unsqueeze", ["mask", last], "mask.column")
    total = graph.op("ReduceSum", [graph.op("Mul", [hidden, weight], "kept"), tokens], "kept.sum", keepdims=0)
    count = graph.op("ReduceSum", ["mask", tokens], "mask.count", keepdims=1)
    mean = graph.op("Div", [total, count], "mean")
    length = graph.op("ReduceL2", [mean, last], "mean.length", keepdims=1)
    graph.op("Div", [mean, length], "embedding")
