"""Whether a file is an export, which is restored, or rows, which are imported."""

from pathlib import Path

from engramq.schemas.exports import LINE_BYTES, is_head
from engramq.schemas.packed_lines import UTF8_BOM, BrokenOff, Source, UnusableFile


def is_export(path: Path) -> bool:
    """Say whether the first line of a file, packed or not, begins an export. A file that cannot be read is none.

    Of a pipe nothing is read, since that would be missing afterwards: whoever reads its rows refuses an export.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as raw:
            first = next((line for line in Source(raw).lines(LINE_BYTES) if line.strip()), b"")
    except (OSError, UnusableFile, BrokenOff):
        return False
    return is_head(first.removeprefix(UTF8_BOM))
