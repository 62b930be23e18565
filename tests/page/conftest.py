"""A real browser before a real stack. `make test-page` installs what drives it; Chromium is the machine's own."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request, sync_playwright

from tests.page.example import fill
from tests.page.screenshots import sign_in
from tests.page.stack import Stack, chromium, running_stack

ABSENT = "There is no Chromium on this machine: install it, or name it in ENGRAMQ_CHROMIUM."


@dataclass
class Watched:
    """A page, and what it must not do: requests elsewhere, violations of its policy, errors, dialogs, windows."""

    page: Page
    stack: Stack
    wrong: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()  # words of what is not wrong in this test

    def watch(self, context: BrowserContext) -> None:
        """Note whatever happens from now on that should not."""

        def note_request(request: Request) -> None:
            if not request.url.startswith((self.stack.origin, "data:")):
                self.wrong.append(f"request to {request.url}")

        def note_dialog(dialog: Dialog) -> None:
            self.wrong.append(f"dialog {dialog.message}")
            dialog.dismiss()

        context.on("request", note_request)
        context.on("page", lambda page: self.wrong.append(f"window {page.url}"))
        self.page.on("dialog", note_dialog)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on(
            "console",
            lambda message: self.wrong.append(f"console {message.text}") if message.type == "error" else None,
        )
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (found) => "
            "console.error(`policy: ${found.violatedDirective} ${found.blockedURI} ${found.sourceFile}`))"
        )

    def go(self, address: str) -> Page:
        """Open a page of the stack."""
        self.page.goto(self.stack.origin + address)
        return self.page

    def unexpected(self) -> list[str]:
        """Return what went wrong and should not have."""
        return [wrong for wrong in self.wrong if not any(word in wrong for word in self.expected)]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        if os.environ.get("CI") or os.environ.get("ENGRAMQ_CI"):
            pytest.fail(ABSENT)
        pytest.skip(ABSENT)
    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def stack(browser: Browser) -> Iterator[Stack]:
    """A stack with an example in it, for tests that leave it as it is or add to it."""
    with running_stack(embedder="hash") as running:
        running.ids = fill(running)
        yield running


@pytest.fixture
def opened(browser: Browser, stack: Stack) -> Iterator[Callable[..., Watched]]:
    """Open pages that are watched, signed in as somebody; at the end of the test nothing may have gone wrong."""
    all_of_them: list[Watched] = []

    def open_page(principal: str = "ada", on: Stack = stack, **options: Any) -> Watched:
        context = browser.new_context(**options)
        watched = Watched(context.new_page(), on)
        watched.watch(context)
        all_of_them.append(watched)
        sign_in(watched.page, on, principal)
        return watched

    yield open_page
    for watched in all_of_them:
        watched.page.context.close()
    assert [wrong for watched in all_of_them for wrong in watched.unexpected()] == []
