"""Pictures of the page: `python -m tests.page.screenshots FOLDER` makes the ten of docs/page.md, `--all` every page.

Chromium draws a stack of its own, filled with a year of memories.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.page.stack import Stack, chromium, running_stack
from tests.page.year import fill_year

WIDE: ViewportSize = {"width": 1200, "height": 760}
PHONE: ViewportSize = {"width": 390, "height": 844}
LIGHT, DARK = "light", "dark"
ROWS: Final = 1_500
# Of docs/page.md: the name of the picture, the address, the theme, the size.
PICTURES: Final[tuple[tuple[str, str, str, ViewportSize], ...]] = (
    ("start", "/ui", LIGHT, WIDE),
    ("memories", "/ui/memories?project=shop", LIGHT, WIDE),
    ("search", "/ui/memories?q=which+port+does+the+payment+service+have", LIGHT, WIDE),
    ("memory", "/ui/memories/{memory}", LIGHT, WIDE),
    ("memory-dark", "/ui/memories/{memory}", DARK, WIDE),
    ("inbox", "/ui/inbox", LIGHT, WIDE),
    ("contradictions", "/ui/contradictions", LIGHT, WIDE),
    ("graph", "/ui/graph", DARK, WIDE),
    ("audit", "/ui/audit", LIGHT, WIDE),
    ("phone", "/ui", LIGHT, PHONE),
)
PAGES: Final = ("", "/memories", "/changes", "/contradictions", "/standing", "/graph", "/inbox", "/consent", "/imports")
ADMIN_PAGES: Final = ("/audit", "/tokens", "/system", "/memories/{memory}")


def main(folder: Path, *, everything: bool) -> None:
    """Draw the pictures into a folder."""
    path = chromium()
    if path is None:
        sys.exit("There is no Chromium here: install it, or name it in ENGRAMQ_CHROMIUM.")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = PICTURES
    if everything:
        pictures = tuple(
            (f"{address.strip('/').replace('/{memory}', '').replace('/', '-') or 'start'}-{theme}-{name}",
             f"/ui{address}", theme, size)
            for address in (*PAGES, *ADMIN_PAGES)
            for theme in (LIGHT, DARK)
            for name, size in (("wide", WIDE), ("phone", PHONE))
        )  # fmt: skip
    with running_stack() as stack, sync_playwright() as play:
        stack.invite("ada")
        ids = fill_year(stack, "ada", datetime.now(UTC), ROWS)
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, address, theme, size in pictures:
            page = _page(browser, size, theme)
            _draw(page, stack, address.format(**ids), folder / f"{name}.png", whole=everything)
            page.context.close()
        browser.close()


def _draw(page: Page, stack: Stack, address: str, file: Path, *, whole: bool) -> None:
    sign_in(page, stack, "ada")
    page.goto(stack.origin + address)
    path = address.partition("?")[0]
    if path in ("/ui", "/ui/memories"):
        page.wait_for_selector(".facet" if path != "/ui" else "#often")
    if path == "/ui/graph":
        page.wait_for_selector("#drawing[data-drawn]")
    if path == "/ui/audit":
        page.locator(".change summary").first.click()
    page.wait_for_load_state("load")
    page.screenshot(path=file, full_page=whole)


def _page(browser: Browser, viewport: ViewportSize, theme: str) -> Page:
    dark = theme == "dark"
    return browser.new_context(viewport=viewport, color_scheme="dark" if dark else "light").new_page()


def sign_in(page: Page, stack: Stack, principal: str) -> None:
    """Sign in as somebody, by the form."""
    page.goto(f"{stack.origin}/ui/sign-in")
    page.fill("#token", stack.tokens[principal])
    page.click("button.main")
    page.wait_for_url(f"{stack.origin}/ui")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    main(Path(words[0] if words else "docs/screenshots"), everything="--all" in sys.argv)
