"""Backups made by hand: whole ones that are small, and ones that nobody should take."""

import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from engramq.deploy.local.backup.archive import HEADER, KIND, MANIFEST, ArchiveWriter, Header
from engramq.deploy.local.backup.taking import this_platform

VERSION_FILE = "postgres/data/PG_VERSION"
HERE = Header(engramq="9.9", schema=1, postgresql=18, platform=this_platform(), made_at="2026-01-31T00:00:00Z")
VECTORS = Random(1).randbytes(2**20)  # which cannot be packed
FILES = {
    VERSION_FILE: b"18\n",
    "postgres/data/base/1": VECTORS,
    "postgres/local.conf": b"jit = on\n",
    "http-token": b"secret\n",
}
FOLDERS = ("postgres/data", "postgres/data/base", "postgres/data/pg_wal/archive_status")


def backup(file: Path, **changes: Any) -> Path:
    """Write a whole backup that holds FILES and FOLDERS; `changes` are of its header."""
    with file.open("wb") as out, ArchiveWriter(out, replace(HERE, **changes)) as writer:
        for folder in FOLDERS:
            writer.folder(folder)
        for name, content in FILES.items():
            writer.file(name, io.BytesIO(content), len(content))
    return file


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of a tar, of whatever kind."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def forged(file: Path, *members: tuple[tarfile.TarInfo, bytes], header: dict[str, Any] | None = None) -> Path:
    """Write a backup of these members whose manifest is right, so that only they can be wrong."""
    head = json.dumps({"type": KIND, **asdict(HERE), **(header or {})}).encode()
    everything = [member(HEADER, head), member(VERSION_FILE, b"18\n"), *members]
    files = {
        info.name: {"bytes": info.size, "sha256": sha256(content).hexdigest()}
        for info, content in everything
        if info.type != tarfile.DIRTYPE
    }
    folders = [info.name for info, _ in everything if info.type == tarfile.DIRTYPE]
    return packed(file, [*everything, member(MANIFEST, json.dumps({"files": files, "folders": folders}).encode())])


def packed(file: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Write a gzipped tar of these."""
    with gzip.open(file, "wb") as out, tarfile.open(fileobj=out, mode="w|") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return file
