"""Calls of engramq over REST with the standard library alone, so that Hermes needs no further package."""

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

LOCAL: Final = "http://127.0.0.1:8765"
# What may be answered otherwise later: an expired token and a wrong address are mended, a busy server is free again.
_AGAIN: Final = frozenset({401, 403, 404, 405, 408, 425, 429, 500, 502, 503, 504})
_REPLY_BYTES_MAX: Final = 4 * 2**20


class Unreached(Exception):
    """The server gave no answer that is one; the same request may be sent again later."""


class RequestRefused(Exception):
    """The server refused the request, and will again. The text is the server's, with what to do."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nobody: the token goes to the server that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Wire:
    """The server at `url`, else at ENGRAMQ_URL, else on this machine; its token is ENGRAMQ_TOKEN."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        base = (url or os.environ.get("ENGRAMQ_URL") or LOCAL).strip().rstrip("/")
        if not base.startswith(("http://", "https://")):
            raise ValueError(f"ENGRAMQ_URL is {base!r}, which is no http or https URL.")
        self._base = base.removesuffix("/mcp").removesuffix("/v1")
        self._token = (token or os.environ.get("ENGRAMQ_TOKEN") or "").strip()
        if not all("!" <= character <= "~" for character in self._token):
            raise ValueError("ENGRAMQ_TOKEN has a character that no token has.")
        self._opener = urllib.request.build_opener(_NoRedirects())

    def post(self, path: str, body: Mapping[str, Any], *, timeout_s: float, key: str = "") -> dict[str, Any]:
        """Send one request and return the reply; `key` makes a write that is sent again be carried out once."""
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if key:
            headers["idempotency-key"] = key
        request = urllib.request.Request(  # noqa: S310 - http or https, as the constructor says
            f"{self._base}/v1{path}", json.dumps(body).encode(), headers, method="POST"
        )
        try:
            with self._opener.open(request, timeout=timeout_s) as answer:
                return _object(answer.read(_REPLY_BYTES_MAX))
        except urllib.error.HTTPError as problem:
            with problem:
                reply = _object(problem.read(_REPLY_BYTES_MAX), f"The server answered {problem.code}.")
            if problem.code in _AGAIN:
                raise Unreached(_words(reply, problem.code)) from None
            raise RequestRefused(_words(reply, problem.code)) from None
        except (OSError, http.client.HTTPException) as problem:
            raise Unreached(f"The server cannot be reached: {problem}") from None


def _object(body: bytes, otherwise: str = "") -> dict[str, Any]:
    """Return the object in an answer; one that is none, a proxy's page, says `otherwise`."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    if otherwise:
        return {"error": otherwise}
    raise Unreached("The server answered with something that is no reply.")


def _words(reply: Mapping[str, Any], http_status: int) -> str:
    said = " ".join(str(reply[name]) for name in ("error", "recovery") if reply.get(name))
    return said or f"The server answered {http_status}."
