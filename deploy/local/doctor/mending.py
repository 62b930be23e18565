"""What `engramq doctor --fix` does: what is safe to do without knowing more than the checks say."""

from __future__ import annotations

import contextlib
import os
import stat

from engramq.deploy.local.doctor.examination import Examination
from engramq.deploy.local.doctor.local import is_open_to_others, stale_sockets
from engramq.deploy.local.embedded.servers import lock_home
from engramq.deploy.local.home import PASSABLE, DeployError, Home, refuse_foreign
from engramq.deploy.local.supervisor.state import end_predecessor
from engramq.schemas.checks import CheckName


def mend(home: Home, found: Examination) -> list[str]:
    """Mend what can be mended, and return what was done, a sentence each."""
    wrong = {check.name for check in found.checks if check.state != "ok"}
    done: list[str] = []
    if CheckName.HOME in wrong and is_open_to_others(home):
        done.append(_close(home))
    if CheckName.LEFTOVERS in wrong:
        done += _clear(home)
    if CheckName.SCHEMA in wrong and found.owner_url:
        from engramq.workers import doctor  # noqa: PLC0415 - psycopg, for this alone

        done.append(doctor.migrate_now(found.owner_url))
    return done


def _close(home: Home) -> str:
    """Take the right to write from others, where nothing of theirs lies in it."""
    try:
        refuse_foreign(home.path, except_for=(home.postgres.name, home.postgres_sockets.name))
    except DeployError as problem:
        return f"Not closed: {problem}"
    home.path.chmod(stat.S_IMODE(home.path.stat().st_mode) & PASSABLE)
    return f"Closed {home.path} to others. See what is in it: they may have written there."


def _clear(home: Home) -> list[str]:
    """End the processes of a dead supervisor and remove their sockets, unless a living one holds the home."""
    try:
        home.refuse_others()  # the file there names processes to be ended
        lock = lock_home(home)
    except DeployError as problem:
        return [f"Nothing cleared: {problem}"]
    try:
        done = [f"Ended {name}, whose supervisor is dead." for name in end_predecessor(home.state)]
        for path in stale_sockets(home):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                done.append(f"Removed {path}, on which nobody listens.")
        return done or [f"Removed {home.state}."]
    finally:
        os.close(lock)
