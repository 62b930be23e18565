"""A browser without scripts: it keeps cookies, follows links, and sends forms as the pages shown to it have them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Self
from urllib.parse import urlsplit

import httpx

NONE: Mapping[str, str] = {}


@dataclass
class Form:
    """A form of a page; `fields` are those that it would send, with their first values."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class _Reader(HTMLParser):
    """Reads forms, links and text of a page, and every element with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._open: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag == "form":
            self._open = Form(given.get("action", ""), given.get("method", "get"))
            self.forms.append(self._open)
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif self._open is not None and tag in ("input", "select") and given.get("type") != "checkbox":
            self._open.fields.setdefault(given.get("name", ""), given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@dataclass
class Shown:
    """A page as it was answered."""

    response: httpx.Response
    reader: _Reader

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """Read a response."""
        reader = _Reader()
        reader.feed(response.text)
        return cls(response, reader)

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def path(self) -> str:
        return self.response.url.path

    @property
    def text(self) -> str:
        """The text of the page, each white space one blank."""
        return " ".join(" ".join(self.reader.words).split())

    def form(self, action: str) -> Form:
        """Return the form that goes there, or fails; one that is posted before one that asks."""
        found = [form for form in self.reader.forms if urlsplit(form.action).path == action]
        found.sort(key=lambda form: form.method != "post")
        assert found, f"no form goes to {action}, only to {[form.action for form in self.reader.forms]}"
        return found[0]

    def values(self, name: str) -> list[str]:
        """Return the values of all fields of this name, ticked or not."""
        return [given["value"] for tag, given in self.reader.elements if tag == "input" and given.get("name") == name]

    def has_form(self, action: str) -> bool:
        return any(urlsplit(form.action).path == action for form in self.reader.forms)


class Browser:
    """Somebody's browser."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    @classmethod
    @asynccontextmanager
    async def on(cls, port: int) -> AsyncIterator["Browser"]:
        """Open one for the server on this port."""
        base = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=base, follow_redirects=True, timeout=30, verify=False) as client:
            yield cls(client)

    @property
    def origin(self) -> str:
        return str(self.client.base_url).rstrip("/")

    async def get(self, path: str, **query: str) -> Shown:
        return Shown.of(await self.client.get(path, params=query or None))

    async def send(
        self, page: Shown, action: str, headers: Mapping[str, str] = NONE, /, **values: str | Sequence[str]
    ) -> Shown:
        """Send the form of a page that goes to `action`, with these values in place of its own."""
        form = page.form(action)
        assert form.method == "post"
        given = {"origin": self.origin, **headers}
        return Shown.of(await self.client.post(form.action, data={**form.fields, **values}, headers=given))

    async def upload(self, page: Shown, action: str, name: str, content: bytes, **values: str) -> Shown:
        """Send the form of a page that goes to `action` with a file."""
        form, given = page.form(action), {"origin": self.origin}
        sent = {**form.fields, **values}
        sent.pop("file")
        return Shown.of(await self.client.post(action, data=sent, files={"file": (name, content)}, headers=given))

    async def sign_in(self, token: str) -> Shown:
        return await self.send(await self.get("/ui/sign-in"), "/ui/sign-in", token=token)
