"""Writes ONNX files, as far as the graph needs it: nodes, constants, inputs and outputs. Pure; needs no library.

The field numbers are those of onnx.proto (https://github.com/onnx/onnx). Equal graphs give equal bytes.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

FLOAT, UINT8, INT8, INT64, FLOAT16 = 1, 2, 3, 7, 10  # TensorProto.DataType
_TYPES: Final = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int64": INT64, "float16": FLOAT16}
_OF_FLOAT, _OF_INTEGER, _OF_TEXT, _OF_INTEGERS = 1, 2, 3, 7  # AttributeProto.AttributeType

Attribute = int | float | str | Sequence[int]


def _varint(number: int) -> bytes:
    number &= 2**64 - 1  # a negative one has ten bytes
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes((*parts, number))


def _number(place: int, value: int) -> bytes:
    return _varint(place << 3) + _varint(value)


def _bytes(place: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return _varint(place << 3 | 2) + _varint(len(content)) + content


def _float(place: int, value: float) -> bytes:
    return _varint(place << 3 | 5) + struct.pack("<f", value)


def _attribute(name: str, value: Attribute) -> bytes:
    match value:
        case bool() | int():
            told = _number(3, int(value)) + _number(20, _OF_INTEGER)
        case float():
            told = _float(2, value) + _number(20, _OF_FLOAT)
        case str():
            told = _bytes(4, value) + _number(20, _OF_TEXT)
        case _:
            told = b"".join(_number(8, one) for one in value) + _number(20, _OF_INTEGERS)
    return _bytes(1, name) + told


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    dimensions = (_number(1, one) if isinstance(one, int) else _bytes(2, one) for one in shape)
    tensor = _number(1, kind) + _bytes(2, b"".join(_bytes(1, one) for one in dimensions))
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


@dataclass(slots=True)
class OnnxFile:
    """Collects a graph under short names; each method returns the name of its result."""

    name: str
    opset: int
    ir_version: int
    _nodes: list[bytes] = field(default_factory=list)
    _constants: dict[str, bytes] = field(default_factory=dict)

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Add a constant, once."""
        if name not in self._constants:
            little = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
            dimensions = b"".join(_number(1, one) for one in value.shape)
            kind = _number(2, _TYPES[value.dtype.name])
            self._constants[name] = dimensions + kind + _bytes(8, name) + _bytes(9, little.tobytes())
        return name

    def op(self, kind: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> str:
        """Add a node with one output."""
        told = b"".join(_bytes(1, one) for one in inputs) + _bytes(2, output) + _bytes(3, output) + _bytes(4, kind)
        told += b"".join(_bytes(5, _attribute(name, attributes[name])) for name in sorted(attributes))
        self._nodes.append(told)
        return output

    def content(
        self, inputs: dict[str, tuple[int, Sequence[int | str]]], outputs: dict[str, tuple[int, Sequence[int | str]]]
    ) -> bytes:
        """Return the file; inputs and outputs are types and shapes by names."""
        graph = b"".join(
            (
                *(_bytes(1, one) for one in self._nodes),
                _bytes(2, self.name),
                *(_bytes(5, one) for one in self._constants.values()),
                *(_bytes(11, _value(name, *told)) for name, told in inputs.items()),
                *(_bytes(12, _value(name, *told)) for name, told in outputs.items()),
            )
        )
        opset = _bytes(1, "") + _number(2, self.opset)
        return _number(1, self.ir_version) + _bytes(2, "engramq") + _bytes(7, graph) + _bytes(8, opset)
