"""Read the lines of a file or a pipe, whatever packs and encodes it, in bounded memory.

gzip, bzip2 and xz are recognised by their first bytes, UTF-16 by its byte order mark. Lines come as UTF-8. Where the
first one ends with CR alone, as old spreadsheets of the Macintosh write it, LF takes the place of each CR.
"""

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from engramq.schemas import limits

CHUNK_BYTES: Final = 64 * 1024
BLANK_LINES: Final = 100_000  # that follow each other; a few bytes of a packed file are millions
MAGIC_BYTES: Final = 6  # as many as the longest of those below
UTF8_BOM: Final = codecs.BOM_UTF8
_UTF16_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF32_BOMS: Final = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
# What a decoder puts in the place of bytes that are no text: no line with it is valid UTF-8.
_NO_TEXT: Final = b"\xff"

_PACKED: Final[tuple[tuple[bytes, str, Callable[[Any], Any]], ...]] = (
    (b"\x1f\x8b", "gzip", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", "bzip2", bz2.BZ2File),
    (b"\xfd7zXZ\x00", "xz", lzma.LZMAFile),
)
_UNKNOWN: Final = ((b"PK\x03\x04", "a zip archive"), (b"\x28\xb5\x2f\xfd", "packed by zstd"))
_END: Final = re.compile(rb"[\r\n]")
_FIRST_LINE: Final = 1024 * 1024  # bytes of the first line in which its end is looked for
_LONE_CR: Final = re.compile(rb"\r(?!\n)")
DAMAGES: Final = (EOFError, zlib.error, lzma.LZMAError, OSError)


class UnusableFile(Exception):
    """The file as a whole cannot be imported; the message says why and what to do."""


class BrokenOff(Exception):
    """The file cannot be read on; the message says why."""


def is_utf16(beginning: bytes) -> bool:
    """Say by its first four bytes if a text is in UTF-16; raises UnusableFile for UTF-32, whose mark begins as its."""
    if beginning.startswith(_UTF32_BOMS):
        raise UnusableFile("The file is in UTF-32: save it as UTF-8.")
    return beginning.startswith(_UTF16_BOMS)


class PackedSource:
    """A file, or a pipe, to be read once.

    `position`: how many of its bytes, as they are in the file, the lines given so far took.
    """

    def __init__(self, raw: Any) -> None:
        self._file = _Headed(raw)
        self._packing = ""
        self.position = 0

    def lines(self, longest: int = limits.BODY_BYTES) -> Iterator[bytes]:
        """Yield the lines, of one with more than `longest` bytes only its (too long) beginning.

        Raises UnusableFile, or BrokenOff after the last line that could be read.
        """
        try:
            stream, is_plain = self._unpack()
            lines = _CrLines(stream) if stream.ends_with_cr() else stream
            for line, size in _cut_lines(io.BufferedReader(lines, CHUNK_BYTES), longest):
                self.position = self.position + size if is_plain else self._file.given
                yield line
        except DAMAGES as problem:
            raise BrokenOff(_explain(problem, self._packing)) from None

    def text(self) -> io.BufferedReader:
        """Return all of it as a stream, whose reading raises DAMAGES; raises these and UnusableFile."""
        return io.BufferedReader(self._unpack()[0], CHUNK_BYTES)

    def _unpack(self) -> tuple["_Headed", bool]:
        """Return the text as a stream, and whether it is the file as it stands."""
        magic = self._file.head(MAGIC_BYTES)
        for beginning, what in _UNKNOWN:
            if magic.startswith(beginning):
                raise UnusableFile(f"The file is {what}. Unpack it, or pack it with gzip, bzip2 or xz.")
        stream = self._file
        for beginning, name, opened in _PACKED:
            if magic.startswith(beginning):
                self._packing, stream = name, _Headed(opened(io.BufferedReader(self._file, CHUNK_BYTES)))
        if is_utf16(stream.head(4)):
            stream = _Headed(io.BufferedReader(_Transcoded(stream), CHUNK_BYTES))
        return stream, stream is self._file


def _cut_lines(stream: io.BufferedReader, longest: int) -> Iterator[tuple[bytes, int]]:
    """Yield each line, cut where it is too long, and its whole size. Raises BrokenOff for blanks without end."""
    blank = 0
    while line := stream.readline(longest + 1):
        blank = 0 if line.strip() else blank + 1
        if blank > BLANK_LINES:
            raise BrokenOff(f"More than {BLANK_LINES} empty lines follow each other. Bytes after them are not read.")
        size, rest = len(line), line
        while len(rest) > longest and not rest.endswith(b"\n"):
            rest = stream.readline(longest + 1)
            size += len(rest)
        yield line, size


def _explain(problem: Exception, packing: str) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"The file cannot be read on: {problem.strerror}."
    if isinstance(problem, EOFError):
        return f"The file ends too early: its {packing} data is cut off. Whatever came from here on is missing."
    return f"The file's {packing} data is damaged. Whatever came from here on is missing."


class _Headed(io.RawIOBase):
    """A stream whose first bytes can be looked at; `given`: how many bytes have been read from it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._head = b""
        self.given = 0

    def head(self, size: int) -> bytes:
        """Return the first bytes, which stay to be read."""
        while len(self._head) < size and (more := self._stream.read1(CHUNK_BYTES)):
            self._head += more
        return self._head[:size]

    def ends_with_cr(self) -> bool:
        """Say whether the first line ends with CR alone; "\\r\\r\\n" is one end of two conversions.

        It reads no more than it needs: a pipe may give the rest much later.
        """
        while True:
            end = _END.search(self._head)
            behind = b"" if end is None else self._head[end.start() :].lstrip(b"\r")
            if behind or len(self._head) > _FIRST_LINE or not (more := self._stream.read1(CHUNK_BYTES)):
                return end is not None and not behind.startswith(b"\n")
            self._head += more

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head[: len(buffer)] or self._stream.read1(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        self.given += len(data)
        return len(data)


class _Transcoded(io.RawIOBase):
    """UTF-16, by its byte order mark, as UTF-8; a line with what is no text is no UTF-8 then."""

    def __init__(self, stream: _Headed) -> None:
        self._stream = io.BufferedReader(stream, CHUNK_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            data = self._stream.read1(CHUNK_BYTES)
            self._ended = not data
            self._ready = self._decode(data)
        given, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(given)] = given
        return len(given)

    def _decode(self, data: bytes) -> bytes:
        try:
            return self._decoder.decode(data, final=not data).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # half a character at the end
            return _NO_TEXT


class _CrLines(io.RawIOBase):
    """Text whose lines end with CR: LF takes the place of each. It has as many bytes as before."""

    def __init__(self, stream: Any) -> None:
        self._stream = io.BufferedReader(stream, CHUNK_BYTES)
        self._ready = b""
        self._held = b""  # a CR that LF may follow
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            self._ready = self._read_some()
        given, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(given)] = given
        return len(given)

    def _read_some(self) -> bytes:
        data = self._stream.read1(CHUNK_BYTES)
        self._ended = not data
        data = self._held + data
        self._held = b"\r" if data.endswith(b"\r") and not self._ended else b""
        return _LONE_CR.sub(b"\n", data.removesuffix(self._held))
