"""The page that documents the settings, made from their one table: `make generate`."""

from engramq.schemas.settings import SETTINGS

HEAD = """# Settings

Environment variables, read once at start. A bad value is refused then, with a message that names it. An empty variable
counts as not set. What is secret may come from a file instead, one line in it, as operators mount them: the variable's
name with `_FILE` behind it names the file ({secrets}, and a client's
`ENGRAMQ_TOKEN_FILE`). This page is made from the table that the program reads:
`make generate`.

| variable | default | meaning |
|---|---|---|
"""


def settings_page() -> str:
    """Return the page as Markdown."""
    rows = (
        f"| `{setting.variable}` | {f'`{setting.default}`' if setting.default else ''} | {setting.meaning} |"
        for setting in SETTINGS
    )
    secrets = ", ".join(f"`{setting.variable}_FILE`" for setting in SETTINGS if setting.secret)
    return HEAD.format(secrets=secrets) + "\n".join(rows) + "\n"
