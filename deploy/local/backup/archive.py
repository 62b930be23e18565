"""Write and read the file of a backup: a gzipped tar, its header first, its manifest of SHA-256 last.

Written and read as a stream: what is held in memory is a chunk, and the list of members. Whatever a reader cannot prove
to be as it was written is an error, and names that lead out of the folder are none that it passes on.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from types import TracebackType
from typing import IO, Any, Final, Self

from engramq.deploy.local.home import DeployError

FORMAT: Final = 1
KIND: Final = "engramq.backup"
HEADER: Final = "engramq-backup.json"
MANIFEST: Final = "manifest.json"
CHUNK: Final = 2**20
HEADER_MAX: Final = 2**16  # bytes
MANIFEST_MAX: Final = 2**28  # bytes; some two million members
COMPRESSION: Final = 1  # half as fast as a disk on one core; 6 takes thrice as long for a tenth less
_REGULAR: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)
_BROKEN: Final = (tarfile.TarError, zlib.error, EOFError)


@dataclass(frozen=True)
class Header:
    """The header of a backup: the release and schema that it was made with, and which server can read it.

    `platform` is system and processor: a cluster's files fit no other. `made_at` is RFC 3339.
    """

    engramq: str
    schema: int
    postgresql: int
    platform: str
    made_at: str
    format: int = FORMAT


@dataclass
class ArchiveContents:
    """An archive's contents: by the name of each file its size in bytes and its SHA-256, and the names of folders."""

    files: dict[str, dict[str, int | str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(int(file["bytes"]) for file in self.files.values())


@dataclass(frozen=True)
class ArchiveEntry:
    """A member as it is read: a folder has no `chunks`, a file has all of its bytes there."""

    name: str
    chunks: Iterator[bytes] | None


class Damaged(DeployError):
    """The file is cut, or not as it was written."""

    def __init__(self, what: str) -> None:
        super().__init__("backup_damaged", f"The backup is cut or damaged: {what}.", "Take another copy of it.")


class ArchiveWriter:
    """Writes an archive to `out`, for the length of a block; only at its end, without an error, it is whole."""

    def __init__(self, out: IO[bytes], header: Header) -> None:
        self.header = header
        self.contents = ArchiveContents()
        self._out = _Outlet(out)
        self._packed = gzip.GzipFile("", "wb", COMPRESSION, self._out)
        self._tar = tarfile.open(fileobj=self._packed, mode="w|", bufsize=CHUNK, format=tarfile.GNU_FORMAT)  # noqa: SIM115 - until close
        self._tar.copybufsize = CHUNK  # type: ignore[attr-defined]
        self._text(HEADER, {"type": KIND, **asdict(header)})

    def folder(self, name: str) -> None:
        """Add a folder."""
        self._tar.addfile(_info(name, 0, tarfile.DIRTYPE))
        self.contents.folders.append(name)
        _forget(self._tar)

    def file(self, name: str, source: IO[bytes], size: int) -> None:
        """Add a file of `size` bytes. Raises OSError where `source` has fewer, or `out` takes no more."""
        reader = _Hashing(source)
        self._tar.addfile(_info(name, size, tarfile.REGTYPE), reader)
        _forget(self._tar)
        self.contents.files[name] = {"bytes": size, "sha256": reader.digest.hexdigest()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._text(MANIFEST, asdict(self.contents))
        else:
            self._out.target = None  # which may be full, or closed
        self._tar.close()
        self._packed.close()

    def _text(self, name: str, value: dict[str, Any]) -> None:
        text = json.dumps(value).encode()
        self.file(name, io.BytesIO(text), len(text))


class ArchiveReader:
    """Reads an archive from `source`, as often as is asked for, and trusts nothing that is in it.

    Raises DeployError when it is no backup (`not_a_backup`), of a newer format (`backup_newer`), or damaged.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        with _broken_is("not_a_backup"), self._open_archive(HEADER_MAX) as (tar, _):
            self.header = _header(tar)

    def entries(self) -> Iterator[ArchiveEntry]:
        """Yield what the archive holds, but header and manifest, and check all of it by its end.

        A caller takes all chunks of an entry, or none, before the next one. Raises Damaged.
        """
        contents = ArchiveContents()
        with _broken_is("backup_damaged"), self._open_archive(CHUNK) as (tar, packed):
            for member in members_of(tar):
                if member.name == MANIFEST:
                    _compare(_json_of(tar, member, MANIFEST_MAX), contents)
                    break
                yield from self._entry(tar, member, contents)
            else:
                raise Damaged("its end is missing")
            if tar.next() is not None:
                raise Damaged("something follows its end")
            while packed.read(CHUNK):  # to the checksum of the whole
                pass

    def _entry(
        self, tar: tarfile.TarFile, member: tarfile.TarInfo, contents: ArchiveContents
    ) -> Iterator[ArchiveEntry]:
        name = member.name
        if name in contents.files or name in contents.folders or not _is_safe(name):
            raise Damaged(f"it names {name!r}")
        if member.type == tarfile.DIRTYPE:
            contents.folders.append(name)
            yield ArchiveEntry(name, None)
            return
        if member.type not in _REGULAR:
            raise Damaged(f"{name!r} is neither a file nor a folder")
        source = tar.extractfile(member)
        assert source is not None
        hashing = _Hashing(source)
        chunks = _chunks(hashing)
        if name != HEADER:
            yield ArchiveEntry(name, chunks)
        for _ in chunks:
            pass
        contents.files[name] = {"bytes": hashing.bytes, "sha256": hashing.digest.hexdigest()}

    @contextlib.contextmanager
    def _open_archive(self, buffered: int) -> Iterator[tuple[tarfile.TarFile, _Unpacked]]:
        self._source.seek(0)
        packed = _Unpacked(self._source)
        with tarfile.open(fileobj=packed, mode="r|", bufsize=buffered) as tar:
            yield tar, packed


def members_of(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tar that is read as a stream, and keep none."""
    for member in iter(tar.next, None):
        _forget(tar)
        yield member


def _forget(tar: tarfile.TarFile) -> None:
    """Drop the list that it keeps of all members that it has read or written."""
    tar.members = []  # type: ignore[attr-defined]  # typeshed lacks it


class _Unpacked(io.BufferedIOBase):
    """The one gzip stream of a file, with nothing behind it: GzipFile takes zeros there, and more streams."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__()
        self._source = source
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # of gzip

    def read(self, size: int | None = CHUNK, /) -> bytes:
        """Return up to `size` bytes, none at the end; raises Damaged, zlib.error or EOFError."""
        data = b""
        while not data and not self._stream.eof:
            packed = self._stream.unconsumed_tail or self._source.read(CHUNK)
            if not packed:
                raise EOFError("its end is missing")
            data = self._stream.decompress(packed, size or CHUNK)
        if self._stream.eof and (self._stream.unused_data or self._source.read(1)):
            raise Damaged("something follows its end")
        return data


class _Outlet:
    """Passes on what is written, to nobody in the end."""

    def __init__(self, target: IO[bytes]) -> None:
        self.target: IO[bytes] | None = target

    def write(self, data: bytes) -> int:
        return len(data) if self.target is None else self.target.write(data)

    def flush(self) -> None:
        if self.target is not None:
            self.target.flush()


class _Hashing:
    """Passes on what is read, and sums it up."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()
        self.bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        self.bytes += len(data)
        return data


def _chunks(source: _Hashing) -> Iterator[bytes]:
    with _broken_is("backup_damaged"):
        while chunk := source.read(CHUNK):
            yield chunk


@contextlib.contextmanager
def _broken_is(code: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        if code == "not_a_backup":
            raise _no_backup() from error
        raise Damaged(str(error).strip(".").lower() or type(error).__name__) from error


def _no_backup() -> DeployError:
    return DeployError("not_a_backup", "The file is no backup of engramq, or its beginning is damaged.")


def _header(tar: tarfile.TarFile) -> Header:
    first = tar.next()
    if first is None or first.name != HEADER or first.type not in _REGULAR:
        raise _no_backup()
    fields = _json_of(tar, first, HEADER_MAX)
    is_header = fields.pop("type", None) == KIND and isinstance(fields.get("format"), int)
    if not is_header or not _is_printable(fields.get("engramq")):
        raise _no_backup()
    if (written := fields["format"]) > FORMAT:
        raise DeployError(
            "backup_newer",
            f"The backup has format {written}, made by engramq {fields['engramq']}; this one knows {FORMAT}.",
            "Install that release of engramq, or a later one.",
        )
    try:
        header = Header(**fields)
    except TypeError:
        raise _no_backup() from None
    texts, numbers = (header.engramq, header.platform, header.made_at), (header.schema, header.postgresql)
    if not all(map(_is_printable, texts)) or not all(isinstance(number, int) for number in numbers):
        raise _no_backup()
    return header


def _is_printable(text: Any) -> bool:
    """Say whether a text may be shown: a terminal would do what an escape in it says."""
    return isinstance(text, str) and text.isprintable()


def _json_of(tar: tarfile.TarFile, member: tarfile.TarInfo, bytes_max: int) -> dict[str, Any]:
    source = tar.extractfile(member) if member.type in _REGULAR and member.size <= bytes_max else None
    try:
        value = json.loads(source.read()) if source is not None else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Damaged(f"{member.name!r} cannot be read")
    return value


def _compare(manifest: dict[str, Any], contents: ArchiveContents) -> None:
    if manifest == asdict(contents):
        return
    files = manifest.get("files")
    listed = files if isinstance(files, dict) else {}
    wrong = [name for name, file in contents.files.items() if listed.get(name) != file]
    missing = [name for name in listed if name not in contents.files]
    raise Damaged(f"{(wrong + missing or ['its list of members'])[0]!r} is not as it was written")


def _is_safe(name: str) -> bool:
    """Whether a name leads to something below a folder, and is written in one way only."""
    parts = PurePosixPath(name).parts
    return bool(parts) and "/".join(parts) == name and parts[0] != "/" and ".." not in parts and "\\" not in name


def _info(name: str, size: int, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    info.mode = 0o700 if kind == tarfile.DIRTYPE else 0o600
    return info
