"""Write everything that follows from declarations: `python -m tools.generate`; `--stale` lists what is out of date.

The types of the TypeScript client need Node, so they are written where `make generate` gives its path; their first line
says of which openapi.json they are.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engramq.gateway.rest import openapi
from engramq.schemas.commands import TOOLS
from engramq.schemas.settings import OTHERS, SETTINGS
from engramq.telemetry.catalog import metrics_page
from tools import agent_files, promises, support
from tools.clients import python, typescript
from tools.reference import reference

HEAD = """# Settings

Environment variables, read once at start. A bad value is refused then, with a message that names it. An empty variable
counts as not set. A secret may come from a file with one line, as operators mount them. The variable's
name with `_FILE` behind it names the file: {secrets}, and a client's
`ENGRAMQ_TOKEN_FILE`. This page is made from the table that the program reads:
`make generate`.

| variable | default | meaning |
|---|---|---|
"""

OTHERS_HEAD: Final = """

Any other variable whose name begins with `ENGRAMQ_` is refused, so that a misspelt one is not overlooked. These are for
clients, commands and tests (and `ENGRAMQ_TEST_*`: [CONTRIBUTING.md](../CONTRIBUTING.md)):

| variable | meaning |
|---|---|
"""


def settings_page() -> str:
    """Return the page as Markdown."""
    rows = (
        f"| `{setting.variable}` | {f'`{setting.default}`' if setting.default else ''} | {setting.meaning} |"
        for setting in SETTINGS
        if not setting.of_tests
    )
    secrets = ", ".join(f"`{setting.variable}_FILE`" for setting in SETTINGS if setting.secret)
    others = (f"| `{variable}` | {meaning} |" for variable, meaning in OTHERS.items())
    return HEAD.format(secrets=secrets) + "\n".join(rows) + OTHERS_HEAD + "\n".join(others) + "\n"


ROOT: Final = Path(__file__).resolve().parents[1]
TYPES: Final = ROOT / "typescript" / "src" / "schema.ts"
_READS: Final = ROOT / "deploy" / "local" / "conversation.py"


def texts() -> Mapping[Path, str]:
    """Return what each generated file has to hold, except the types of TypeScript."""
    docs = ROOT / "docs"
    document = openapi.write_document()
    return {
        docs / "tools.md": reference(),
        docs / "settings.md": settings_page(),
        docs / "metrics.md": metrics_page(),
        docs / "promises.md": promises.page(),
        support.README: support.page(),
        **agent_files.texts(),
        docs / "openapi.json": document,
        **{python.CLIENT / name: text for name, text in python.modules(document).items()},
        typescript.CALLS: typescript.written(document),
        _READS: _reads(_READS.read_text(encoding="utf-8")),
    }


def stale() -> list[str]:
    """Return the generated files that are not what they have to be."""
    wrong = [path for path, text in texts().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not TYPES.read_text(encoding="utf-8").startswith(origin()):
        wrong.append(TYPES)
    return [str(path.relative_to(ROOT)) for path in wrong]


def origin() -> str:
    """Return the first line of the types of TypeScript."""
    digest = hashlib.sha256(openapi.write_document().encode()).hexdigest()
    return f"// Of docs/openapi.json with the sha256 {digest}.\n"


def _reads(module: str) -> str:
    """Return the stdio relay's module with the names of the tools that only read."""
    names = "".join(f'        "{name}",\n' for name, tool in sorted(TOOLS.items()) if tool.read_only)
    return re.sub(r"(READ_TOOLS = frozenset\(\n    \{\n).*?(    \}\n)", rf"\g<1>{names}\g<2>", module, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write the files, the types by `node` and its command's path if these are given; 1 if any is left stale."""
    if arguments != ["--stale"]:
        for path, text in texts().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if len(arguments) == 2:
        subprocess.run(
            [*arguments, str(ROOT / "docs" / "openapi.json"), "--empty-objects-unknown", "--output", str(TYPES)],
            check=True,
        )
        TYPES.write_text(origin() + TYPES.read_text(encoding="utf-8"), encoding="utf-8")
    left = stale()
    sys.stdout.write("".join(f"stale: {path}\n" for path in left))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
