"""Where the server is, and how a request is made of what a call sends."""

import os
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from engramq.client.exchange import Answer, Send
from engramq.client.policy import Policy

URL_VARIABLE: Final = "ENGRAMQ_URL"
TOKEN_VARIABLE: Final = "ENGRAMQ_TOKEN"  # noqa: S105 - the name of a variable
PORT_VARIABLE: Final = "ENGRAMQ_PORT"
_PORT: Final = "8765"  # of `engramq up`, as docs/settings.md has it
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MOST_RETRY_S: Final = 3_600.0


def http_options(url: str | None, token: str | None, policy: Policy) -> dict[str, Any]:
    """Return the arguments of an httpx client for the server at `url`, else ENGRAMQ_URL, else this machine's.

    Raises ValueError for a URL that is none. The token goes to that server alone: no redirect is followed.
    """
    base = (url or os.environ.get(URL_VARIABLE) or f"http://127.0.0.1:{os.environ.get(PORT_VARIABLE) or _PORT}").strip()
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{base!r} is no http or https URL of a server.")
    secret = token or os.environ.get(TOKEN_VARIABLE)
    return {
        "base_url": base.rstrip("/").removesuffix("/mcp").removesuffix("/v1"),
        "headers": {"authorization": f"Bearer {secret}"} if secret else {},
        "timeout": httpx.Timeout(policy.request_s, connect=policy.connect_s),
        "follow_redirects": False,
        "trust_env": parts.hostname not in _LOOPBACK,  # no proxy stands before this machine
    }


def sent(step: Send, policy: Policy) -> dict[str, Any]:
    """Return the arguments of httpx's `request` for a step."""
    request = step.request
    headers = {} if request.key is None else {"idempotency-key": request.key.encode()}
    if request.body is not None:
        headers["content-type"] = b"application/json"
    timeout = httpx.Timeout(step.timeout_s, connect=min(policy.connect_s, step.timeout_s))
    given = {"method": request.method, "url": request.path, "content": request.body}
    return {**given, "params": request.query or None, "headers": headers, "timeout": timeout}


def heard(response: httpx.Response) -> Answer:
    """Return what came in an answer."""
    asked = response.headers.get("retry-after", "")
    retry_s = min(float(asked), _MOST_RETRY_S) if asked.isascii() and asked.isdigit() else 0.0
    return Answer(response.status_code, response.content, retry_s)
