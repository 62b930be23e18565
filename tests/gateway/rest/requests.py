"""Arguments of a tool as a request to its operation, and answers against what the OpenAPI document promises."""

from functools import cache
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs

from engramq.gateway.rest.openapi import document
from engramq.schemas.commands import TOOLS


class Rest:
    """A client that sends arguments of tools where their operations take them, and checks every answer."""

    def __init__(self, port: int, **headers: str) -> None:
        # Plain HTTP verifies nothing, and reading the certificates takes as long as several calls.
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=20.0, verify=False)

    async def call(self, tool: str, arguments: dict[str, Any], **headers: str) -> httpx.Response:
        """Send a call and return its answer after the document's promise was found kept."""
        operation = TOOLS[tool]
        path = operation.path
        rest = dict(arguments)
        for name in operation.in_path:
            path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
        sent: Any = {"json": rest} if operation.has_body else {"params": _in_query(rest)}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.http.request(operation.method, path, headers=named, **sent)
        check_answer(tool, answer)
        return answer


def _in_query(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in arguments.items()}


def check_answer(tool: str, answer: httpx.Response) -> None:
    """Prove that the document has this status and this body for the operation."""
    assert answer.headers["content-type"] == "application/json"
    operation = TOOLS[tool]
    responses = document()["paths"][operation.path][operation.method.lower()]["responses"]
    known = str(answer.status_code) if str(answer.status_code) in responses else "default"
    _validator(tool, known).validate(answer.json())


@cache
def _validator(tool: str, status: str) -> jsonschema_rs.Draft202012Validator:
    whole = document()
    operation = TOOLS[tool]
    said = whole["paths"][operation.path][operation.method.lower()]["responses"][status]
    if "$ref" in said:
        said = whole["components"]["responses"][said["$ref"].rpartition("/")[2]]
    schema = said["content"]["application/json"]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": whole["components"]})
