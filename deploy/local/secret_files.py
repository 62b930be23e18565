"""Secrets that an operator mounts as files: ENGRAMQ_DATABASE_URL_FILE names the file that has ENGRAMQ_DATABASE_URL.

Imported by the stdio relay: standard library only.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

from engramq.deploy.local.home import DeployError
from engramq.deploy.local.settings import PREFIX

# The settings that are secret (a test compares them with the table), and the token of a client.
SECRETS = tuple(
    PREFIX + name
    for name in (
        *("DATABASE_URL", "MIGRATE_DATABASE_URL", "REDIS_URL"),
        *("EMBEDDER_KEY", "WEBHOOKS_KEY", "METRICS_TOKEN", "TOKEN"),
    )
)
SUFFIX = "_FILE"
_MOST = 65_536  # bytes


def take_secrets(environment: MutableMapping[str, str]) -> None:
    """Put what such files have into the variables that they stand for, and take the names of the files out.

    The end of the last line does not belong to a secret.

    Raises:
        DeployError: a file cannot be read, or the variable is set, too.
    """
    for variable in SECRETS:
        file = environment.pop(variable + SUFFIX, "")
        if not file:
            continue
        if environment.get(variable):
            raise DeployError("bad_setting", f"{variable} and {variable}{SUFFIX} are both set; one of them is enough.")
        environment[variable] = _read(variable + SUFFIX, Path(file))


def _read(variable: str, file: Path) -> str:
    if not file.is_absolute():  # another process reads it, from a folder of its own
        raise DeployError("bad_setting", f"{variable}: must be an absolute path.")
    try:
        with file.open("rb") as opened:
            kept = opened.read(_MOST + 1)
        text = kept.decode()
    except OSError as problem:
        raise DeployError("bad_setting", f"{variable}: {file} cannot be read ({problem.strerror}).") from None
    except UnicodeDecodeError:
        raise DeployError("bad_setting", f"{variable}: {file} is not UTF-8.") from None
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret or len(kept) > _MOST or any(mark in secret for mark in "\n\r\0"):
        raise DeployError("bad_setting", f"{variable}: {file} must hold one line that is not empty.")
    return secret
