"""The same model in int8 arithmetic: dense layers multiply bytes, and the token table stays in the other file.

Knows: how a dense layer is quantised for multiplication. Refuses to know: the architecture (`graph`).

Activations get one scale for a whole run, found as the run goes (DynamicQuantizeLinear), so texts must run alone.
Weights get one scale for each output and 7 bits: a product of two bytes and its neighbour then never overflow 16 bits,
in which CPUs without VNNI add them up, so every CPU multiplies to the same integers. Query, key and value are one
matrix, so that what they have in common is quantised once. Standard operators only; onnxruntime fuses them.
"""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper

from tools.minilm import graph
from tools.minilm.graph import Tensor, Weights

LARGEST = 63  # of 7 bits, zero in the middle
TABLE = "tokens.int8"


class _Int8Graph(graph.Graph):
    """Dense layers in int8; everything else as in the float32 graph."""

    def dense(self, name: str, value: str, matrix: Tensor, bias: Tensor) -> str:
        outputs = [f"{value}.uint8", f"{value}.scale", f"{value}.zero"]
        if not any(outputs[0] in node.output for node in self.nodes):
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [value], outputs, name=outputs[0]))
        scale = (np.abs(matrix).max(axis=0) / np.float32(LARGEST)).astype(np.float32)
        weight = self.constant(f"{name}.int8", np.rint(matrix / scale).astype(np.int8))
        inputs = [outputs[0], weight, outputs[2], self.constant(f"{name}.zero", np.zeros(len(scale), dtype=np.int8))]
        whole = self.op("MatMulInteger", inputs, f"{name}.int32")
        wide = self.op("Cast", [whole], f"{name}.wide", to=TensorProto.FLOAT)
        factor = self.op("Mul", [outputs[1], self.constant(f"{name}.scale", scale)], f"{name}.factor")
        product = self.op("Mul", [wide, factor], f"{name}.product")
        return self.op("Add", [product, self.constant(f"{name}.bias", bias)], f"{name}.out")

    def dense_parts(self, names: list[str], value: str, matrices: list[Tensor], biases: list[Tensor]) -> Iterator[str]:
        together = names[0].rpartition(".")[0] + ".parts"
        whole = self.dense(together, value, np.concatenate(matrices, axis=1), np.concatenate(biases))
        outputs = [f"{name}.out" for name in names]
        lengths = self.constant(f"{together}.lengths", np.array([len(bias) for bias in biases], dtype=np.int64))
        self.nodes.append(helper.make_node("Split", [whole, lengths], outputs, name=f"{together}.split", axis=-1))
        yield from outputs


def build(weights: Weights, other: bytes, other_name: str) -> bytes:
    """Return the serialised model, whose token table is read from the float32 model `other`, a file beside it."""
    model = onnx.load_model_from_string(graph.build_with(_Int8Graph(quantised=True), weights))
    (table,) = (known for known in model.graph.initializer if known.name == TABLE)
    content = table.raw_data
    offset = other.find(content)
    if offset < 0 or other.find(content, offset + 1) >= 0:
        raise ValueError(f"{other_name} does not hold {TABLE} once")
    table.ClearField("raw_data")
    table.data_location = TensorProto.EXTERNAL
    for key, value in (("location", other_name), ("offset", str(offset)), ("length", str(len(content)))):
        entry = table.external_data.add()
        entry.key, entry.value = key, value
    return bytes(model.SerializeToString(deterministic=True))
