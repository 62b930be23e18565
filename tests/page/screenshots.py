"""Pictures of the page: `python -m tests.page.screenshots FOLDER` makes those of the README, `--all` every page.

Chromium draws a stack of its own, filled with an example.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.page.example import fill
from tests.page.stack import Stack, chromium, running_stack

WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
README = ("overview", "graph")


def main(folder: Path, *, everything: bool) -> None:
    """Draw the pictures into a folder."""
    path = chromium()
    if path is None:
        sys.exit("There is no Chromium here: install it, or name it in ENGRAMQ_CHROMIUM.")
    folder.mkdir(parents=True, exist_ok=True)
    with running_stack() as stack, sync_playwright() as play:
        ids = fill(stack)
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        addresses = {
            "overview": "/ui",
            "memories": "/ui/memories",
            "search": "/ui/memories?q=how+often+is+a+failed+charge+retried",
            "memory": f"/ui/memories/{ids['new']}",
            "inbox": "/ui/inbox",
            "consent": "/ui/consent",
            "graph": "/ui/graph?node=Shop",
            "audit": "/ui/audit",
            "imports": "/ui/imports",
            "tokens": "/ui/tokens",
        }
        if not everything:
            addresses = {name: addresses[name] for name in README}
        for theme in ("light", "dark") if everything else ("light",):
            for size, viewport in (("wide", WIDE), ("phone", PHONE)) if everything else (("wide", WIDE),):
                page = _page(browser, viewport, theme)
                _draw(page, stack, folder, addresses, f"-{theme}-{size}" if everything else "")
                page.context.close()
        browser.close()


def _draw(page: Page, stack: Stack, folder: Path, addresses: dict[str, str], ending: str) -> None:
    sign_in(page, stack, "ada")
    for name, address in addresses.items():
        page.goto(stack.origin + address)
        if name == "overview":
            page.wait_for_selector(".tiles")
        if name == "graph":
            page.wait_for_selector("#drawing[data-drawn]")
            for expanded, row in enumerate(("Billing", "Identity", "Ledger"), start=2):
                page.locator("#node-rows tr", has_text=row).get_by_role("link", name="Expand").first.click()
                page.wait_for_selector(f"#drawing[data-steps='{expanded}']")
            page.evaluate("scrollTo(0, 0)")
        if name == "search":
            page.locator(".why summary").first.click()
        page.wait_for_load_state("networkidle") if name not in ("overview", "imports") else None
        page.screenshot(path=folder / f"{name}{ending}.png", full_page=bool(ending))


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
