"""The docs page of REST: one HTML page without scripts, links or fonts from elsewhere, from the OpenAPI document."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = """
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font:14px/1.45 ui-monospace,monospace}pre{overflow:auto;padding:.7rem;border:1px solid #8886;border-radius:4px}
summary{cursor:pointer;padding:.35rem 0}
summary b{display:inline-block;min-width:4.5rem}details{border-top:1px solid #8884}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem .2rem 0;vertical-align:top}
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def page(document: Mapping[str, Any]) -> str:
    """Return the page of a document."""
    info = document["info"]
    intro = "".join(f"<p>{_text(part)}</p>" for part in info["description"].split("\n\n"))
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        f"<title>{escape(info['title'])} REST</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} REST {escape(info['version'])}</h1>{intro}"
        '<p><a href="/v1/openapi.json">openapi.json</a> has the same for programs, with the shape of each reply.</p>'
        f"{''.join(_areas(document['paths']))}</body></html>"
    )


def _areas(paths: Mapping[str, Any]) -> Iterator[str]:
    area = None
    ordered = [(path, method, said) for path, methods in paths.items() for method, said in methods.items()]
    for path, method, said in sorted(ordered, key=lambda one: one[2]["tags"]):
        if said["tags"] != area:
            area = said["tags"]
            yield f"<h2>{escape(area[0])}</h2>"
        yield _operation(path, method, said)


def _operation(path: str, method: str, said: Mapping[str, Any]) -> str:
    about = "".join(f"<p>{_text(part)}</p>" for part in said["description"].split("\n\n"))
    rows = "".join(_rows(said))
    table = f"<table><tr><th>parameter<th>in<th>takes<th>meaning</tr>{rows}</table>" if rows else ""
    answers = ", ".join(sorted(code for code in said["responses"] if code != "default"))
    return (
        f'<details id="{escape(said["operationId"])}"><summary><b>{method.upper()}</b> <code>{escape(path)}</code> '
        f"{escape(said['summary'])}</summary>{about}{table}{_body_example(said)}"
        f"<p>Answers {answers}. operationId <code>{escape(said['operationId'])}</code>.</p></details>"
    )


def _rows(said: Mapping[str, Any]) -> Iterator[str]:
    for one in said.get("parameters", ()):
        yield _row(one["name"], one["in"], one["schema"], one.get("required", False), one.get("description", ""))
    if "requestBody" in said:
        schema = said["requestBody"]["content"]["application/json"]["schema"]
        for name, value in schema["properties"].items():
            yield _row(name, "body", value, name in schema.get("required", ()), value.get("description", ""))


def _row(name: str, place: str, schema: Mapping[str, Any], required: bool, meaning: str) -> str:
    kind = " | ".join(schema["enum"]) if "enum" in schema else schema["type"]
    takes = f"{kind}, required" if required else kind
    return f"<tr><td><code>{escape(name)}</code><td>{place}<td>{escape(takes)}<td>{_text(meaning)}</tr>"


def _body_example(said: Mapping[str, Any]) -> str:
    if "requestBody" not in said:
        return ""
    example = json.dumps(said["requestBody"]["content"]["application/json"]["example"], indent=2)
    return f"<pre>{escape(example)}</pre>"


def _text(text: str) -> str:
    """Return a text as HTML, with what stands in backquotes as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))
