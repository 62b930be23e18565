"""Which project a folder is of: worktrees and clones share one, and namesakes do not. Repositories are git's own."""

import contextlib
import json
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramq.deploy.local.home import DeployError, Home
from engramq.deploy.local.hooks import notes as notes_of_hooks
from engramq.deploy.local.hooks import projects
from engramq.deploy.local.hooks.notes import SessionNotes
from engramq.deploy.local.hooks.projects import known_projects, project_of, rename_project
from engramq.deploy.local.hooks.repository import address_of, in_repository, path_within, place_of

pytestmark = pytest.mark.promise("RC-5", "RC-15")

SPACE = "default_user"
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def repository(folder: Path, remote: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let this process, and those that it starts, write nothing into files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def named(home: Home, folder: Path, namespace: str = SPACE) -> str:
    return project_of(home, namespace, str(folder))


def test_worktrees_and_folders_of_a_repository_are_of_its_project(home: Home, tmp_path: Path) -> None:
    """Finding D5: a worktree was a project of its own."""
    rover = repository(tmp_path / "rover")
    git(rover, "worktree", "add", "--quiet", str(tmp_path / "elsewhere" / "rover-fix"))
    (rover / "src" / "deep").mkdir(parents=True)
    places = (tmp_path / "elsewhere" / "rover-fix", rover, rover / "src" / "deep", rover / ".git" / "hooks")
    assert [named(home, place) for place in places] == ["rover"] * 4
    other_home = Home(tmp_path / "other-home")
    other_home.path.mkdir()
    assert [named(other_home, place) for place in reversed(places)] == ["rover"] * 4


def test_settings_kept_in_git_in_the_users_own_folder_claim_nothing_below_it(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = repository(tmp_path / "ada")
    monkeypatch.setenv("HOME", str(own))
    notes = own / "notes"
    notes.mkdir()
    assert (named(home, own), named(home, notes), in_repository(str(notes))) == ("", "notes", False)
    assert named(home, repository(own / "shop")) == "shop"


def test_namesakes_are_projects_of_their_own(home: Home, tmp_path: Path) -> None:
    """Finding D5: another customer's repository of the same name was told the first one's notes."""
    first = repository(tmp_path / "clientA" / "rover")
    second = repository(tmp_path / "clientB" / "rover")
    third = repository(tmp_path / "c" / "rover", "git@git.example.com:acme/rover.git")
    assert [named(home, place) for place in (first, second, third)] == ["rover", "clientB/rover", "acme/rover"]
    fourth = repository(tmp_path / "d" / "clientB" / "rover")
    assert named(home, fourth) == "rover-2"
    assert [named(home, place) for place in (fourth, third, second, first)] == [
        "rover-2", "acme/rover", "clientB/rover", "rover",
    ]  # fmt: skip
    assert named(home, second, "another namespace") == "rover"


def test_clones_of_the_same_address_share_a_project(home: Home, tmp_path: Path) -> None:
    first = repository(tmp_path / "rover", "https://ada:s3cret@git.example.com/acme/rover.git?private_token=t0ken")
    second = repository(tmp_path / "again" / "work", "git@git.example.com:acme/rover")
    assert (named(home, first), named(home, second)) == ("rover", "rover")
    kept = home.projects.read_text()
    assert "git.example.com/acme/rover" in kept
    assert not [secret for secret in ("ada", "s3cret", "t0ken", "token") if secret in kept.replace(str(tmp_path), "")]
    assert home.projects.stat().st_mode & 0o777 == 0o600


def test_a_clone_of_a_clone_on_this_machine_is_of_its_project(home: Home, tmp_path: Path) -> None:
    rover = repository(tmp_path / "rover", "https://git.example.com/acme/rover")
    git(tmp_path, "clone", "--quiet", "rover", "copy")
    git(tmp_path, "clone", "--quiet", "--bare", str(rover), "bare.git")
    git(tmp_path, "clone", "--quiet", "bare.git", "third")
    assert named(home, tmp_path / "copy") == "copy"  # the first of them that was seen
    assert [named(home, tmp_path / name) for name in ("rover", "bare.git", "third")] == ["copy"] * 3


def test_a_bare_repository_and_its_worktrees_are_one_project(home: Home, tmp_path: Path) -> None:
    repository(tmp_path / "seed")
    git(tmp_path, "clone", "--quiet", "--bare", "seed", "rover.git")
    git(tmp_path / "rover.git", "remote", "remove", "origin")
    git(tmp_path / "rover.git", "worktree", "add", "--quiet", str(tmp_path / "fix"), "HEAD", "--detach")
    assert [named(home, tmp_path / name) for name in ("fix", "rover.git", "rover.git/refs")] == ["rover"] * 3
    (tmp_path / "mars").mkdir()
    git(tmp_path, "clone", "--quiet", "--bare", "seed", "mars/.bare")
    git(tmp_path / "mars" / ".bare", "remote", "remove", "origin")
    git(tmp_path / "mars" / ".bare", "worktree", "add", "--quiet", "../main", "HEAD", "--detach")
    assert named(home, tmp_path / "mars" / "main") == "mars"


def test_a_submodule_is_a_project_of_its_own_wherever_it_is(home: Home, tmp_path: Path) -> None:
    library = repository(tmp_path / "origin" / "wheels")
    for name in ("rover", "lander"):
        git(repository(tmp_path / name), "submodule", "add", "--quiet", str(library), "lib/wheels")
    places = (tmp_path / "rover" / "lib" / "wheels", tmp_path / "lander" / "lib" / "wheels", library)
    assert [named(home, place) for place in places] == ["wheels"] * 3
    assert [named(home, tmp_path / name) for name in ("rover", "lander")] == ["rover", "lander"]


def test_without_git_a_folder_is_a_project_by_its_path(home: Home, tmp_path: Path) -> None:
    for name in ("a/notes/deep", "b/notes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "short").symlink_to(tmp_path / "a" / "notes")
    places = ("a/notes", "b/notes", "short", "a/notes/deep")
    assert [named(home, tmp_path / name) for name in places] == ["notes", "b/notes", "notes", "deep"]
    assert [project_of(home, SPACE, folder) for folder in ("", "/", "a\0b", "/*")] == ["", "", "", ""]


def test_no_git_is_started(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rover = repository(tmp_path / "rover", "https://git.example.com/acme/rover")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(subprocess, "Popen", None)
    assert named(home, rover) == "rover"


def test_a_repository_that_changes_its_address_stays_the_same_project(home: Home, tmp_path: Path) -> None:
    rover = repository(tmp_path / "rover")
    assert named(home, rover) == "rover"
    git(rover, "remote", "add", "origin", "https://git.example.com/acme/rover")
    assert named(home, rover) == "rover"
    git(rover, "remote", "set-url", "origin", "https://git.example.com/newacme/rover")
    assert named(home, rover) == "rover"
    assert known_projects(home, SPACE)["rover"].remotes == [
        "git.example.com/acme/rover",
        "git.example.com/newacme/rover",
    ]
    assert named(home, repository(tmp_path / "x", "https://git.example.com/acme/rover")) == "rover"


@pytest.mark.parametrize("remote", ["", "https://git.example.com/acme/rover"])
def test_a_checkout_that_is_renamed_or_moved_stays_the_same_project(home: Home, tmp_path: Path, remote: str) -> None:
    rover = repository(tmp_path / "work" / "rover", remote)
    git(rover, "worktree", "add", "--quiet", str(tmp_path / "fix"))
    assert [named(home, rover), named(home, tmp_path / "fix")] == ["rover", "rover"]
    rover = rover.rename(tmp_path / "work" / "mars-rover")
    assert named(home, rover) == "rover"
    (tmp_path / "archive").mkdir()
    moved = rover.rename(tmp_path / "archive" / "rover")
    assert [named(home, moved / ".git"), named(home, moved)] == ["rover", "rover"]
    assert list(known_projects(home, SPACE)) == ["rover"]
    (tmp_path / "work" / "rover").mkdir()
    assert named(home, tmp_path / "work" / "rover") == "work/rover", "what comes there next is another project"


def test_a_copy_of_a_repository_without_an_address_is_a_project_of_its_own(home: Home, tmp_path: Path) -> None:
    rover = repository(tmp_path / "rover")
    assert named(home, rover) == "rover"
    shutil.copytree(rover, tmp_path / "copy")
    assert [named(home, tmp_path / "copy"), named(home, rover)] == ["copy", "rover"]


def test_a_plain_folder_that_is_renamed_is_another_project_until_they_are_merged(home: Home, tmp_path: Path) -> None:
    """Nothing in a folder without git tells it from another one."""
    (tmp_path / "notes").mkdir()
    assert named(home, tmp_path / "notes") == "notes"
    (tmp_path / "notes").rename(tmp_path / "diary")
    assert named(home, tmp_path / "diary") == "diary"
    assert rename_project(home, SPACE, "notes", "diary")
    assert named(home, tmp_path / "diary") == "diary"
    assert list(known_projects(home, SPACE)) == ["diary"]


def test_a_project_of_several_repositories_is_one_after_a_merge(home: Home, tmp_path: Path) -> None:
    server = repository(tmp_path / "server", "https://git.example.com/acme/server")
    client = repository(tmp_path / "client")
    assert [named(home, server), named(home, client)] == ["server", "client"]
    assert rename_project(home, SPACE, "client", "server")
    assert rename_project(home, SPACE, "server", "shop")
    git(client, "worktree", "add", "--quiet", str(tmp_path / "client-fix"))
    again = repository(tmp_path / "elsewhere" / "again", "git@git.example.com:acme/server")
    assert [named(home, place) for place in (server, client, tmp_path / "client-fix", again)] == ["shop"] * 4


def test_a_file_is_of_its_own_repository_in_whichever_window_it_is_open(home: Home, tmp_path: Path) -> None:
    """Several roots in one window, a folder of repositories, a submodule: the session's folder is of one alone."""
    rover, lander = repository(tmp_path / "rover"), repository(tmp_path / "roots" / "lander")
    library = repository(tmp_path / "wheels")
    git(rover, "submodule", "add", "--quiet", str(library), "lib/wheels")
    git(rover, "worktree", "add", "--quiet", str(tmp_path / "fix"))
    for folder in (rover / "src", lander / "src", tmp_path / "fix" / "src", tmp_path / "plain" / "deep"):
        folder.mkdir(parents=True)

    def place(file: str, folder: Path) -> tuple[str, str]:
        known_by, path = path_within(file, str(folder))
        return named(home, Path(known_by)), path

    assert place("src/app.py", rover) == ("rover", "src/app.py")
    assert place("app.py", rover / "src") == ("rover", "src/app.py")
    assert place("../fix/src/app.py", rover) == ("rover", "src/app.py")
    assert place(str(lander / "src" / "app.py"), rover) == ("lander", "src/app.py")
    assert place("roots/lander/src/app.py", tmp_path) == ("lander", "src/app.py")
    assert place("lib/wheels/round.py", rover) == ("wheels", "round.py")
    assert place("src/new/deep/app.py", rover) == ("rover", "src/new/deep/app.py")
    assert place("deep/a.md", tmp_path / "plain") == ("plain", "deep/a.md")
    assert place(str(tmp_path / "plain" / "a.md"), rover) == ("rover", str(tmp_path / "plain" / "a.md"))
    assert place("/", rover)[0] == "rover"


def test_another_repository_in_the_same_place_is_another_project(home: Home, tmp_path: Path) -> None:
    rover = repository(tmp_path / "rover", "https://git.example.com/acme/rover")
    assert named(home, rover) == "rover"
    shutil.rmtree(rover)
    repository(rover, "https://git.example.com/rival/rover")
    assert [named(home, rover), named(home, rover)] == ["rival/rover"] * 2
    shutil.rmtree(rover)
    repository(rover, "https://git.example.com/acme/rover")
    assert named(home, rover) == "rover"


def test_another_repository_in_the_place_of_one_without_an_address_is_another_project(
    home: Home, tmp_path: Path
) -> None:
    """Another client's clone was told the notes of what stood there before."""
    rover = repository(tmp_path / "work" / "rover")
    git(tmp_path, "clone", "--quiet", "work/rover", "copy")
    assert [named(home, tmp_path / "copy"), named(home, rover)] == ["copy", "copy"]
    mars = repository(tmp_path / "work" / "mars")
    assert named(home, mars) == "mars"
    for folder, name in ((rover, "rover"), (mars, "rival/mars")):
        shutil.rmtree(folder)
        repository(folder, f"https://git.example.com/rival/{folder.name}")
        assert named(home, folder) == name
    shutil.rmtree(mars)
    repository(mars)
    assert named(home, mars) == "work/mars"


def test_a_folder_that_becomes_a_repository_stays_the_same_project(home: Home, tmp_path: Path) -> None:
    """After `git init` all that was kept so far was out of sight."""
    (tmp_path / "a" / "notes").mkdir(parents=True)
    notes = tmp_path / "z" / "notes"
    notes.mkdir(parents=True)
    (notes / "monday.md").write_text("The kettle is blue.")
    assert [named(home, tmp_path / "a" / "notes"), named(home, notes)] == ["notes", "z/notes"]
    git(notes, "init", "--quiet")
    git(notes, "remote", "add", "origin", "https://git.example.com/acme/notes")
    git(tmp_path / "a" / "notes", "init", "--quiet")
    assert [named(home, notes), named(home, tmp_path / "a" / "notes")] == ["z/notes", "notes"]
    git(notes, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    git(notes, "worktree", "add", "--quiet", str(tmp_path / "fix"))
    assert named(home, tmp_path / "fix") == "z/notes"


def test_a_clone_in_the_place_of_a_folder_is_another_project(home: Home, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    assert named(home, notes) == "notes"
    notes.rmdir()
    seed = repository(tmp_path / "rival" / "seed")
    (seed / "readme").write_text("Theirs.")
    git(seed, "add", "readme")
    git(seed, "commit", "--quiet", "--message", "Add")
    git(tmp_path, "clone", "--quiet", "rival/seed", "notes")
    git(notes, "remote", "set-url", "origin", "https://git.example.com/rival/notes")
    assert named(home, notes) == "rival/notes"


@pytest.mark.parametrize(
    "text", ["gitdir: /nowhere/at/all\n", "", "\0\0\0", "gitdir: \ud83d".encode("utf-8", "replace").decode()]
)
def test_what_is_no_repository_after_all_is_a_folder(home: Home, tmp_path: Path, text: str) -> None:
    (tmp_path / "app" / "src").mkdir(parents=True)
    (tmp_path / "app" / ".git").write_text(text)
    assert named(home, tmp_path / "app" / "src") == "app"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://git.example.com/acme/rover.git", "git.example.com/acme/rover"),
        ("https://ada:s3cret@GIT.example.com:443/acme/rover/", "git.example.com/acme/rover"),
        ("https://t0ken@git.example.com/acme/rover", "git.example.com/acme/rover"),
        ("https://ada:with/slash@git.example.com/acme/rover", "git.example.com/acme/rover"),
        ("https://ada:12/34@git.example.com/acme/rover", "git.example.com/acme/rover"),
        ("https://git.example.com/acme/rover?token=t0ken#main", "git.example.com/acme/rover"),
        ("ssh://git@git.example.com:22/acme/rover", "git.example.com/acme/rover"),
        ("ssh://git@git.example.com:2222/acme/rover", "git.example.com:2222/acme/rover"),
        ("git@git.example.com:acme/rover.git", "git.example.com/acme/rover"),
        ("ada:s3cret@git.example.com:acme/rover.git", "git.example.com/acme/rover"),
        ("https://[::1]:443/acme/rover", "[::1]/acme/rover"),
        ("/srv/git/rover", "/srv/git/rover"),
        ("file:///srv/git/rover", "/srv/git/rover"),
        ("../rover", "/work/rover"),
        ("", ""),
    ],
)
def test_an_address_has_one_form_and_nobodys_login(url: str, address: str) -> None:
    assert address_of(url, "/work/mars/.git") == address


def test_a_configuration_is_read_as_git_writes_it(tmp_path: Path) -> None:
    rover = repository(tmp_path / "rover")
    git(rover, "remote", "add", "upstream", "https://git.example.com/first/rover")
    git(rover, "config", "remote.pushDefault", "upstream")
    place = place_of(str(rover))
    assert place is not None
    assert place.remote == "git.example.com/first/rover"  # the first one, where none is called origin
    git(rover, "remote", "add", "origin", "https://git.example.com/acme/ro;ver#1")
    place = place_of(str(rover))
    assert place is not None
    assert place.remote == "git.example.com/acme/ro;ver"


def test_a_merge_joins_what_projects_are_known_by(home: Home, tmp_path: Path) -> None:
    first, second = repository(tmp_path / "a" / "rover"), repository(tmp_path / "b" / "rover")
    assert (named(home, first), named(home, second)) == ("rover", "b/rover")
    for session, name in (("s1", "b/rover"), ("s2", "rover")):
        notes = SessionNotes(home, "codex", session)
        notes.namespace, notes.project = SPACE, name
        notes.write()
    elsewhere = SessionNotes(home, "codex", "s3")
    elsewhere.namespace, elsewhere.project = "other", "b/rover"
    elsewhere.write()
    assert not rename_project(home, SPACE, "unknown", "rover")
    assert rename_project(home, SPACE, "b/rover", "rover")
    notes_of_hooks.follow_renaming(home, SPACE, "b/rover", "rover")
    assert [named(home, place) for place in (first, second)] == ["rover", "rover"]
    assert rename_project(home, SPACE, "rover", "mars")
    assert [named(home, place) for place in (first, second)] == ["mars", "mars"]
    assert [SessionNotes(home, "codex", name).project for name in ("s1", "s2", "s3")] == ["rover", "rover", "b/rover"]


def test_sessions_that_begin_at_once_agree_on_the_names(home: Home, tmp_path: Path) -> None:
    places = [repository(tmp_path / name / "rover") for name in "abcdef"]
    names: dict[Path, set[str]] = {place: set() for place in places}
    together = threading.Barrier(len(places) * 3)

    def begin(place: Path) -> None:
        together.wait(60)
        names[place].add(named(home, place))

    threads = [threading.Thread(target=begin, args=(place,)) for place in places * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(len(each) == 1 for each in names.values())
    assert len(set.union(*names.values())) == len(places)


def test_a_file_of_projects_that_makes_no_sense_is_not_written_over(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for text in ("{", "[]", '{"default_user": {"rover": {}}}', '{"default_user": 5}'):
        home.projects.write_text(text)
        with pytest.raises(DeployError, match="no list of projects"):
            named(home, tmp_path / "notes")
        assert home.projects.read_text() == text


def test_a_file_of_projects_that_cannot_be_read_is_named(home: Home, tmp_path: Path) -> None:
    home.projects.mkdir()
    with pytest.raises(DeployError, match="cannot be read: Is a directory"):
        named(home, tmp_path)


def test_on_a_full_disk_a_project_has_its_name_and_is_noted_later(home: Home, tmp_path: Path) -> None:
    first, second = repository(tmp_path / "a" / "rover"), repository(tmp_path / "b" / "rover")
    assert named(home, first) == "rover"
    kept = home.projects.read_text()
    with full_disk():
        assert [named(home, second), named(home, second)] == ["b/rover"] * 2
        with pytest.raises(OSError, match="File too large"):
            rename_project(home, SPACE, "rover", "mars")
    assert {path.name: path.read_text() for path in home.path.iterdir()} == {home.projects.name: kept}
    assert named(home, second) == "b/rover"
    assert home.projects.read_text() != kept


def test_plain_folders_that_are_gone_are_forgotten_where_there_are_very_many(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "_KEPT", 3)
    rover = repository(tmp_path / "rover", "https://git.example.com/acme/rover")
    assert named(home, rover) == "rover"
    shutil.rmtree(rover)
    for name in ("one-day", "two-days", "three-days"):
        (tmp_path / name).mkdir()
        assert named(home, tmp_path / name) == name
        if name == "one-day":
            (tmp_path / name).rmdir()
    assert set(json.loads(home.projects.read_text())[SPACE]) == {"rover", "two-days", "three-days"}


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    home = Home(tmp_path / "none")
    (tmp_path / "rover").mkdir()
    assert named(home, tmp_path / "rover") == "rover"
    assert not home.path.exists()
