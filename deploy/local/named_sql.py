"""Read the statements of a .sql file, each below a line `-- name: ITS_NAME`."""

import re
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def read_statements(path: Path) -> dict[str, str]:
    """Return the statements by their names; a comment may hold anything but such a line."""
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))
