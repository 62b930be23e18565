"""Know a project again, whatever folder of it a session is in, and call each by a name that no other one has.

The home keeps a file of them: by namespace and name the folders and addresses that a project was seen with. A name is
the repository's, with its owner only where another project had it first.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engramq.deploy.local.home import DeployError, Home, replace_whole
from engramq.deploy.local.hooks.repository import ProjectPlace, folder_before, place_of

# More are never forgotten but those whose folders are gone, and which no address would tell again.
_KEPT: Final = 1_000


class KnownProject(NamedTuple):  # a dataclass takes 7 ms to import
    """The signs of a project: folders, each with when its git folder was made, and addresses of clones."""

    folders: dict[str, int]
    remotes: list[str]


Registry = dict[str, dict[str, KnownProject]]  # by namespace and name


def project_of(home: Home, namespace: str, folder: str) -> str:
    """Return the name of the project that a folder is of, "" where it is of none; one that is new is noted.

    Raises DeployError where the file of projects cannot be read. Where it cannot be written, as on a full disk or
    before there is a home, a new name is noted another time: doctor says what is wrong with the home.
    """
    place = place_of(folder)
    if place is None or place.folder == str(home.path):
        return ""
    name, changed = _noted(_read(home).get(namespace, {}), place)
    if not changed:
        return name
    with contextlib.suppress(OSError), _changing(home) as registry:
        name, _ = _noted(registry.setdefault(namespace, {}), place)
    return name


def project_named(known: dict[str, KnownProject], folder: str, *, is_there: bool) -> str:
    """Return how the project of a folder is or would be called, noting a new one among the known alone.

    A folder that is gone tells nothing but its name: a project that was seen with it, or with a git folder in it, keeps
    its own, and nothing is noted.
    """
    place = place_of(folder)
    if place is None or is_there:
        return "" if place is None else _noted(known, place)[0]
    return _with_folder(known, place.folder) or _with_folder(known, f"{place.folder}/.git") or place.name


def known_projects(home: Home, namespace: str) -> dict[str, KnownProject]:
    """Return what the projects of a namespace were seen with, by name. Raises DeployError."""
    return _read(home).get(namespace, {})


def rename_project(home: Home, namespace: str, old: str, new: str) -> bool:
    """Have everything that is known by one name be known by another; say whether anything was.

    Raises DeployError and OSError.
    """
    if old not in known_projects(home, namespace):
        return False
    with _changing(home) as registry:
        known = registry[namespace]
        moved = known.pop(old, KnownProject({}, []))
        there = known.setdefault(new, KnownProject({}, []))
        there.folders.update(moved.folders)
        there.remotes.extend(remote for remote in moved.remotes if remote not in there.remotes)
    return True


def _noted(known: dict[str, KnownProject], place: ProjectPlace) -> tuple[str, bool]:
    """Return the name of the project that a place is of, and whether anything new is noted of it now."""
    name = _name_of(known, place)
    if name:
        project = known[name]
        is_strange = bool(place.remote) and not any(
            place.remote in (*each.remotes, *each.folders) for each in known.values()
        )
        if project.folders.get(place.folder) == place.made and not is_strange:
            return name, False
    else:
        moved = next((each for each, project in known.items() if _moved_from(project, place)), "")
        name, is_strange = moved or _free_name(known, place), bool(place.remote)
        project = known.setdefault(name, KnownProject({}, []))
    for other in known.values():
        other.folders.pop(place.folder, None)  # another repository was there before
    for folder in _moved_from(project, place):
        del project.folders[folder]  # what comes there next is another one
    project.folders[place.folder] = place.made
    if is_strange:
        project.remotes.append(place.remote)
    return name, True


def _name_of(known: dict[str, KnownProject], place: ProjectPlace) -> str:
    """Return what the project of a place is called, "" if it is new.

    A git folder that was made at another time is another repository in the same place: of that its address decides.
    """
    here = _with_folder(known, place.folder)
    made = known[here].folders[place.folder] if here else 0
    if here and made == place.made:
        return here
    is_another = bool(made and place.made)
    for name, project in known.items():
        is_origin = place.folder in project.remotes and not is_another
        if place.remote in project.remotes or place.remote in project.folders or is_origin:
            return name
    if here:
        return "" if is_another or (place.remote and known[here].remotes) else here
    return _with_folder(known, folder_before(place))


def _moved_from(project: KnownProject, place: ProjectPlace) -> list[str]:
    """Return the git folders of a project that were moved to a place: made at the same moment, and there no more.

    A copy keeps that moment too, so a repository that still is where it was is another one.
    """
    made = [folder for folder, when in project.folders.items() if when == place.made != 0 and folder != place.folder]
    return [folder for folder in made if not os.path.exists(folder)]  # noqa: PTH110 - faster


def _with_folder(known: dict[str, KnownProject], folder: str) -> str:
    """Return the name of the project that was seen with a folder, "" if none was."""
    return next((name for name, project in known.items() if folder in project.folders), "")


def _free_name(known: dict[str, KnownProject], place: ProjectPlace) -> str:
    """Return a name for a new project that no other has: the shortest."""
    names = (place.name, place.longer, *(f"{place.name}-{number}" for number in range(2, len(known) + 3)))
    return next(name for name in names if name and name not in known)


@contextlib.contextmanager
def _changing(home: Home) -> Iterator[Registry]:
    """Give what is known, to be changed by one at a time, and write it."""
    lock = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        registry = _read(home)
        yield registry
        _forget_gone(registry)
        _write(home, registry)
    finally:
        os.close(lock)


def _write(home: Home, registry: Registry) -> None:
    known = {space: {name: each._asdict() for name, each in of.items()} for space, of in registry.items()}
    replace_whole(home.projects, json.dumps(known, ensure_ascii=False, indent=1), synced=True)


def _forget_gone(registry: Registry) -> None:
    """Forget, of very many, what no session can come back to: plain folders that are there no more."""
    for known in registry.values():
        if len(known) > _KEPT:
            for name in [
                name
                for name, project in known.items()
                if not (project.remotes or any(map(os.path.exists, project.folders)))
            ]:
                del known[name]


def _read(home: Home) -> Registry:
    try:
        kept: dict[str, Any] = json.loads(home.projects.read_bytes())
        return {
            space: {name: KnownProject(dict(each["folders"]), list(each["remotes"])) for name, each in known.items()}
            for space, known in kept.items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DeployError(
            "projects_unreadable", f"{home.projects} cannot be read: {error.strerror}.", f"chmod u+rw {home.projects}"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DeployError(
            "projects_unreadable", f"{home.projects} is no list of projects.", "Mend it, or remove it: it is made anew."
        ) from None
