"""Write docs/tools.md from the descriptions of the tools: `make generate`."""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from engramq.gateway.mcp import listing
from engramq.gateway.mcp.arguments import Parameter, parameters_of
from engramq.gateway.mcp.schema import output_schema
from engramq.schemas.commands import TOOLS, Tool
from engramq.schemas.faults import FaultCode
from engramq.schemas.records import Memory

_CORE: Final = " \\*"
_MANY: Final = 2  # tools; a parameter that as many take in the same way is described once
_TABLE: Final = "| parameter | type | default | meaning |\n|---|---|---|---|\n"
_HEAD: Final = """\
# Tools

Written by `make generate` from the schemas that arguments are checked against; a test
compares the two. Edit the descriptions, not this file. Clients list a subset that every host takes (types,
required, enum, minimum, maximum, default, description). It lacks bounds above 1,000 and the descriptions of
`detail` and `idempotency_key`. A call checks lengths, patterns, times and all bounds.

Every reply is one JSON object, as structured content and as text, with a `status`. Input that cannot be used answers
`invalid_parameter` with `field`, `error` and `recovery`, and nothing has happened. A refusal answers `error` with
`code`, `error` and `recovery`. Both have `isError: true`; whatever else a caller may expect has `isError: false`.
A write that is not answered in time answers `pending` with its `command_id`; `get_command` gives its reply later.

One word has one shape in all replies. A missing thing is `not_found`, with its kind in `what` and a `hint` where to
look (get_edge alone says no more). A link or an edge has `source_id` and `target_id`; seen from one memory (`links`,
`via`) its other end is `memory_id`.

A value may come in another form if it can mean one thing only. A number or boolean may be text, an object or list JSON
text. A list of one item may be that item (`tags="home"`), a time may lack its zone, and null stands for nothing.

`detail="full"` shows every field of a memory that is not null. With the largest `max_chars` it shows the others too.

A memory id may be `@stored` (the last memory that the session stored) or `@recalled[N]` (the Nth result of its last
search, from 0), but not for verify_memory, memory_promote_to_trusted and an erase.

`ENGRAMQ_TOOLS` chooses what is listed:

| value | lists | tokens (o200k) | other tools |
|---|---|---|---|
| `everyday` (the default) | 21 tools, with the parameters of most calls | at most 4,200 | can be called by name |
| `graph` | these and the rest of the knowledge graph | 5,200 | can be called by name |
| `full` | every tool with every parameter | less than 8,500 | - |
| `core` | the ten marked \\*, with the parameters below | less than 2,200 | are unknown |
| names with commas | these, with every parameter | - | are unknown |

For example, `ENGRAMQ_TOOLS=graph engramq stdio` lists `graph_find_path`. A call may always have the parameters that a
profile does not list. Everyday tools carry `_meta` for Claude Code: `anthropic/alwaysLoad` on five, and on those that
read, `anthropic/maxResultSizeChars`, the largest `max_chars`. Over HTTP a call is in no session unless it names one,
so examples there have `session`. A caller is listed what their scopes and trust allow; what is hidden from them answers
`forbidden`. No text names a tool that its reader has not.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [_HEAD, *(_tool(tool) for tool in TOOLS.values()), _many(), _memory(), _codes(), _others()]
    return "\n".join(parts)


def _tool(tool: Tool) -> str:
    rows = {name: _row(parameter) for name, parameter in parameters_of(tool).items()}
    shared = [f"`{name}`" for name, row in rows.items() if row in _shared_rows()]
    own = "".join(f"{row}\n" for row in rows.values() if row not in _shared_rows())
    hints = [name for name, said in (("read-only", tool.read_only), ("destructive", tool.destructive)) if said]
    hints += ["idempotent"] if tool.idempotent else []
    about = f"Scope `{tool.scope}`." + (f" Hints: {', '.join(hints)}." if hints else "")
    if tool.core:
        about += f" Core lists {', '.join(f'`{name}`' for name in tool.core)} and takes all."
    if tool.everyday:
        about += f" Everyday lists {', '.join(f'`{name}`' for name in tool.everyday)} and takes all."
    if shared:
        about += f" Also takes {', '.join(shared)} ([parameters of many tools](#parameters-of-many-tools))."
    about += f" Example: `{tool.example}`"
    return (
        f"## {tool.name}{_CORE if tool.core else ''}\n\n{tool.summary} {about}\n\n"
        f"{_TABLE + own + chr(10) if own else ''}{_replies(tool)}"
    )


@cache
def _shared_rows() -> frozenset[str]:
    """Return the rows of parameters that many tools take, alike in type, default and meaning."""
    rows = Counter(
        _row(parameter)
        for tool in TOOLS.values()
        for parameter in parameters_of(tool).values()
        if not parameter.required
    )
    return frozenset(row for row, tools in rows.items() if tools >= _MANY)


def _many() -> str:
    return f"## Parameters of many tools\n\n{_TABLE}" + "".join(f"{row}\n" for row in sorted(_shared_rows()))


def _row(parameter: Parameter) -> str:
    schema = parameter.schema
    default = (
        "**required**" if parameter.required else f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
    )
    return f"| `{parameter.name}` | {_kind(parameter)} | {default} | {schema.get('description', '')} |"


def _kind(parameter: Parameter) -> str:
    return parameter.expected.removeprefix("a ").removeprefix("an ").replace("|", "\\|")


def _replies(tool: Tool) -> str:
    schema = output_schema(tool)
    shapes = [_shape(schema["$defs"][reply.__name__], schema["$defs"]) for reply in tool.replies]
    return "".join(f"- Reply: `{shape}`\n" for shape in shapes)


def _shape(definition: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return a Struct's fields on one line; those that are not always there have a question mark."""
    fields = (
        f"{name}{'' if name in definition['required'] else '?'}: {_type(value, definitions)}"
        for name, value in definition["properties"].items()
    )
    return "{" + ", ".join(fields) + "}"


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name: str = schema["$ref"].rpartition("/")[2]
        target = definitions[name]
        if name == Memory.__name__:
            return name
        if name == FaultCode.__name__:
            return "code"
        return _type(target, definitions) if "enum" in target else _shape(target, definitions)
    if "enum" in schema:
        return " or ".join(f'"{word}"' for word in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(option, definitions) for option in schema["anyOf"])
    if schema["type"] == "array":
        return f"[{_type(schema['items'], definitions)}, ...]"
    if schema["type"] == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return "{name: " + _type(schema["additionalProperties"], definitions) + "}"
    return str(schema["type"])


def _memory() -> str:
    schema = output_schema(TOOLS["search_memories"])
    return (
        "## Memory\n\nA memory in every reply; fields with a question mark are there only when they "
        "say something.\n\n"
        f"```\n{_lines(schema['$defs'][Memory.__name__], schema['$defs'])}```\n"
    )


def _lines(definition: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    return "".join(
        f"{name}{'' if name in definition['required'] else '?'}: {_type(value, definitions)}\n"
        for name, value in definition["properties"].items()
    )


def _codes() -> str:
    rows = "".join(f"| `{code}` | {code.recovery} |\n" for code in FaultCode)
    return (
        "## Codes\n\n`overloaded`, `rate_limited` and `unavailable` mean: not applied, and never will be.\n\n"
        f"| code | recovery |\n|---|---|\n{rows}"
    )


def _others() -> str:
    prompt = f"`{listing.RECALL_PROMPT}` (`{listing.RECALL_PROMPT_TASK}`, optional)"
    return (
        f"## Resources\n\n- `{listing.MEMORY_PREFIX}{{id}}`: what get_memory answers.\n"
        f"- `{listing.STATS_URI}`: what memory_stats answers.\n"
        f"- `{listing.GUIDE_URI}` and `{listing.GUIDE_PREFIX}{{topic}}`: what guide answers.\n\n"
        f"## Prompts\n\n- {prompt}: {listing.RECALL_PROMPT_DESCRIPTION}\n"
    )
