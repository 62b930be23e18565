"""Makes the bundle for desktop programs: `python -m tools.bundle WHEEL FOLDER`, or `make bundle`.

A zip of integrations/mcpb with the wheel beside it, which its pyproject.toml is made to name. The same files give the
same bytes.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final

from tools.agent_files import BUNDLE, NAME
from tools.release.version import VERSION

FILES: Final = ("manifest.json", "pyproject.toml", "src/server.py")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can tell


def make(wheel: Path, folder: Path) -> Path:
    """Write the bundle with this wheel into a folder; return its path."""
    contents = {name: (BUNDLE / name).read_bytes() for name in FILES}
    contents["pyproject.toml"] += f'\n[tool.uv.sources]\n{NAME} = {{ path = "{wheel.name}" }}\n'.encode()
    contents[wheel.name] = wheel.read_bytes()
    made = folder / f"{NAME}-{VERSION}.mcpb"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in contents.items():
            bundle.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return made


if __name__ == "__main__":
    sys.stdout.write(f"{make(Path(sys.argv[1]), Path(sys.argv[2]))}\n")
