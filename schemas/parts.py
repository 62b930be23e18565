"""Agree on how an answer travels that is too long for one: in numbered parts, a few ahead of their receiver.

A worker sends a part once there is room for it; who takes one makes room for another. Both are lists of Redis, which
are gone a minute after their last use. A number that does not follow the last one tells of a part that was lost, or of
a second worker: no whole can be made of these.
"""

from typing import Final

import msgspec

AHEAD: Final = 4  # parts that are sent and not yet taken
PART_BYTES: Final = 256 * 1024  # a part is sent as soon as it has so many
STALLED_S: Final = 30  # after which a worker gives up that finds no room, and a taker who gets no part
KEPT_S: Final = 60
LONGEST_S: Final = 900.0  # for all parts; a transaction is open meanwhile


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Some lines of a long answer, and how many of `total` records there are up to here; 0: nobody knows."""

    number: int
    records: int
    total: int
    is_last: bool
    lines: bytes


encode_part: Final = msgspec.msgpack.Encoder().encode
decode_part: Final = msgspec.msgpack.Decoder(Part).decode
