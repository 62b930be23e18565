"""What became of the files that memories cite, in repositories of every shape."""

import os
import shutil
import time
import tracemalloc
from pathlib import Path

import pytest

from engramq.evidence.compare import Cited, Freshness, compare, worst_of
from engramq.evidence.files import NotCitable, cite
from engramq.evidence.git import GitFailed, Repository
from tests.evidence.trees import LINES, cited, commit, git, one, repository, sha256_of, states, write

pytestmark = pytest.mark.promise("EV-2")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return repository(tmp_path / "tree", recipe=LINES, src__oven="heat to 200\nbake\n")


def test_a_file_is_fresh_until_it_changes_and_gone_without_it(tree: Path) -> None:
    citation = cited(tree, "recipe.txt")
    assert one(citation, tree) == Freshness("fresh")
    write(tree, "recipe.txt", LINES + "one more\n")
    assert one(citation, tree).state == "changed"
    (tree / "recipe.txt").unlink()
    assert one(citation, tree).state == "gone"
    commit(tree)
    assert one(citation, tree).state == "gone"


def test_lines_that_moved_within_their_file_are_fresh_and_rewritten_ones_are_not(tree: Path) -> None:
    citation = cited(tree, "recipe.txt", "10-12")
    write(tree, "recipe.txt", "a title\n" + LINES)
    assert one(citation, tree) == Freshness("fresh", "11-13")
    write(tree, "recipe.txt", LINES.replace("line 11 ", "step 11 "))
    assert one(citation, tree).state == "changed"
    write(tree, "recipe.txt", "short\n")
    assert one(citation, tree).state == "changed"


@pytest.mark.parametrize("how", ["staged", "committed", "twice", "by hand"])
def test_a_renamed_file_is_followed(tree: Path, how: str) -> None:
    citation = cited(tree, "recipe.txt")
    if how == "by hand":
        (tree / "recipe.txt").rename(tree / "bread.txt")
    else:
        git(tree, "mv", "recipe.txt", "bread.txt")
    if how in ("committed", "twice"):
        commit(tree)
    place = "bread.txt"
    if how == "twice":
        place = "books/bread.txt"
        (tree / "books").mkdir()
        git(tree, "mv", "bread.txt", place)
        commit(tree)
    assert one(citation, tree) == Freshness("fresh", place)
    write(tree, place, LINES.replace("line 3 ", "step 3 "))
    found = one(citation, tree)
    assert found == (Freshness("gone") if how == "by hand" else Freshness("changed", place))


def test_an_empty_file_that_is_gone_is_no_other_empty_one(tree: Path) -> None:
    write(tree, "src/__init__.py", "")
    commit(tree)
    citation = cited(tree, "src/__init__.py")
    (tree / "src/__init__.py").unlink()
    write(tree, "notes", "")
    assert one(citation, tree) == Freshness("gone")


def test_of_what_a_submodule_renamed_nobody_knows(tree: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", recipe=LINES)
    git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib")
    commit(tree)
    citation = cited(tree, "lib/recipe.txt")
    assert one(citation, tree) == Freshness("fresh")
    git(tree / "lib", "mv", "recipe.txt", "bread.txt")
    assert one(citation, tree).state == "unknown"


def test_a_file_that_was_renamed_and_edited_in_one_commit_is_followed(tree: Path) -> None:
    whole, lines = cited(tree, "recipe.txt"), cited(tree, "recipe.txt", "20-22")
    git(tree, "mv", "recipe.txt", "bread.txt")
    write(tree, "bread.txt", "a title\n" + LINES)
    commit(tree)
    assert one(whole, tree) == Freshness("changed", "bread.txt")
    assert one(lines, tree) == Freshness("fresh", "bread.txt:21-23")


def test_worktrees_and_folders_below_compare_as_the_root_does(tree: Path, tmp_path: Path) -> None:
    citation = cited(tree, "src/oven.txt")
    git(tree, "worktree", "add", "--quiet", str(tmp_path / "other"), "-b", "other")
    assert one(citation, tree / "src") == Freshness("fresh")
    assert one(citation, tmp_path / "other" / "src") == Freshness("fresh")
    write(tmp_path / "other", "src/oven.txt", "heat to 180\n")
    assert one(citation, tmp_path / "other").state == "changed"
    assert one(citation, tree) == Freshness("fresh")


def test_what_a_deleted_branch_had_is_unknown_where_it_is_not_known(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "-b", "side")
    write(tree, "side.txt", LINES)
    kept = commit(tree)
    citation = cited(tree, "side.txt")
    git(tree, "checkout", "--quiet", "main")
    git(tree, "branch", "--quiet", "-D", "side")
    assert one(citation, tree).state == "unknown"  # no branch that is checked out ever had it
    assert one({"commit": kept}, tree) == Freshness("fresh")  # git keeps it for some weeks
    assert one({"commit": "0" * 40}, tree).state == "unknown"


def test_without_a_hash_the_commit_decides(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    citations = [
        {"path": "recipe.txt", "commit": head},
        {"path": "recipe.txt", "lines": "2-3", "commit": head},
        {"path": "recipe.txt", "lines": "900", "commit": head},
        {"path": "recipe.txt", "commit": "0" * 40},
        {"path": "recipe.txt"},
    ]
    assert states(citations, tree) == ["fresh", "fresh", "unknown", "unknown", "unknown"]
    write(tree, "recipe.txt", LINES + "one more\n")
    assert states(citations, tree)[:2] == ["changed", "fresh"]


def test_what_git_keeps_in_another_form_has_not_changed_by_that(tree: Path) -> None:
    git(tree, "config", "filter.lfs.clean", "sha256sum")
    write(tree, ".gitattributes", "*.ps1 text working-tree-encoding=UTF-16\n*.bin filter=lfs\n*.tex ident\n")
    (tree / "hello.ps1").write_bytes("Write-Host hello\n".encode("utf-16"))
    write(tree, "model.bin", "real")
    write(tree, "paper.tex", "$Id: 0123 $\n")
    (tree / "link.txt").symlink_to("recipe.txt")
    head = commit(tree)
    assert git(tree, "status", "--short") == ""
    citations = [{"path": path, "commit": head} for path in ("hello.ps1", "model.bin", "paper.tex", "link.txt")]
    assert states([*citations, {"path": "recipe.txt", "commit": head}], tree) == [*["unknown"] * 4, "fresh"]
    (tree / "link.txt").unlink()
    (tree / "link.txt").symlink_to("src/oven.txt")
    assert states(citations, tree) == [*["unknown"] * 3, "changed"]


def test_a_large_file_that_many_cite_by_commit_is_held_once(tree: Path) -> None:
    size = 8 * 1024 * 1024
    (tree / "large.bin").write_bytes(b"\0" * size)
    head = commit(tree)
    (tree / "large.bin").write_bytes(b"\1" * size)
    tracemalloc.start()
    try:
        assert set(states([{"path": "large.bin", "commit": head}] * 20, tree)) == {"changed"}
        assert tracemalloc.get_traced_memory()[1] < 8 * size
    finally:
        tracemalloc.stop()


def test_of_what_a_commit_has_not_or_is_too_large_nothing_is_told(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    write(tree, "a blob", "new")
    with (tree / "huge.bin").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    git(tree, "update-index", "--add", "--cacheinfo", f"100644,{git(tree, 'hash-object', '-w', 'recipe.txt')},huge.bin")
    commits = [{"path": "a blob", "commit": head}, {"path": "huge.bin", "commit": commit(tree)}]
    (tree / "huge.bin").write_bytes(b"small by now")
    by_now = {"path": "recipe.txt", "commit": head}
    assert states([*commits, by_now, {"path": "a blob", "commit": commit(tree)}], tree) == [
        *("unknown", "unknown", "fresh", "fresh")
    ]


def test_binary_files_and_ends_of_lines(tree: Path) -> None:
    (tree / "photo.bin").write_bytes(b"\x00\r\n\xff" * 100)
    git(tree, "add", "photo.bin")
    citation = cited(tree, "photo.bin")
    assert citation["sha256"] == sha256_of((tree / "photo.bin").read_bytes())
    assert one(citation, tree) == Freshness("fresh")
    text = cited(tree, "recipe.txt")
    (tree / "recipe.txt").write_bytes(LINES.replace("\n", "\r\n").encode())
    assert one(text, tree) == Freshness("fresh")  # as a checkout on another system has it
    (tree / "photo.bin").write_bytes(b"\x00\n\xff" * 100)
    assert one(citation, tree).state == "changed"


def test_what_lies_outside_is_never_read(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(LINES)
    (tree / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tree / "up").symlink_to(tmp_path)
    (tree / "source").symlink_to(tree / "src")
    (tree / "broken.txt").symlink_to("nowhere")
    sha256 = sha256_of(LINES.encode())
    for path in ("../secret.txt", str(tmp_path / "secret.txt"), "src/../../secret.txt", "link.txt", "up/secret.txt"):
        found = one({"path": path, "sha256": sha256}, tree)
        assert (found.state, found.why) == ("unknown", "it lies outside the repository"), path
    inside = cited(tree, "src/oven.txt")
    assert one({**inside, "path": "source/oven.txt"}, tree) == Freshness("fresh")
    assert one({**inside, "path": "broken.txt"}, tree).state in ("gone", "unknown")
    with pytest.raises(NotCitable):
        cite("../secret.txt", folder=str(tree))
    with pytest.raises(NotCitable):
        cite("link.txt", folder=str(tree))


def test_of_what_git_does_not_track_nothing_is_told(tree: Path) -> None:
    write(tree, ".gitignore", ".env\nbuild/\n")
    write(tree, "late.txt", LINES)
    commit(tree)
    git(tree, "rm", "--quiet", "--cached", "late.txt")
    secret = "PIN=0777\n"
    for path in (".env", "build/.env", "plain.env", "late.txt"):
        write(tree, path, secret)
    (tree / "env.txt").symlink_to(".env")
    git(tree, "add", "env.txt")
    write(tree, "sub/.git", secret)
    paths = (
        ".env",
        "build/.env",
        "plain.env",
        "late.txt",
        "env.txt",
        ".git/config",
        ".git/HEAD",
        ".GIT/config",
        "sub/.git",
    )
    for path in paths:
        place = tree / path
        data = place.read_bytes() if place.exists() else secret.encode()
        right, wrong = sha256_of(data), "0" * 64
        line = sha256_of(data.split(b"\n")[0])
        several = [
            {"path": path, "sha256": right}, {"path": path, "sha256": wrong},
            {"path": path, "sha256": line, "lines": "1"}, {"path": path, "sha256": wrong, "lines": "1"},
        ]  # fmt: skip
        assert set(states(several, tree)) == {"unknown"}, path
        (told,) = compare([Cited(several)], str(tree), 20.0, is_kept_here=True)
        expected = ["unknown"] * 4 if ".git" in path.lower().split("/") else ["fresh", "changed"] * 2
        assert [each.state for each in told] == expected, path
    # Nor by the hash of what would be a file that was moved there.
    whole = sha256_of(secret.encode())
    (tree / "recipe.txt").unlink()
    assert [one({"path": path, "sha256": whole}, tree).place for path in ("recipe.txt", "nowhere.txt")] == ["", ""]


def test_files_of_a_submodule_are_compared_where_that_tracks_them(tree: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", recipe=LINES)
    git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib")
    write(tree, "lib/.env", "PIN=0777\n")
    repository(tree / "apart", recipe=LINES)  # a repository of its own, which this one does not have
    told = states([cited(tree, path) for path in ("lib/recipe.txt", "lib/.env", "apart/recipe.txt")], tree)
    assert told == ["fresh", "unknown", "unknown"]


@pytest.mark.long
def test_a_pipe_in_the_place_of_gitignore_takes_bounded_time(tree: Path) -> None:
    renamed, rewritten = cited(tree, "recipe.txt"), {**cited(tree, "src/oven.txt"), "sha256": "0" * 64}
    git(tree, "mv", "recipe.txt", "bread.txt")
    lost = {**renamed, "path": "shop.txt"}
    write(tree, "shop.txt", "open at 7\n")
    commit(tree)
    (tree / "shop.txt").unlink()
    os.mkfifo(tree / ".gitignore")
    begun = time.monotonic()
    assert states([renamed, rewritten, lost], tree, budget_s=60.0) == ["fresh", "changed", "gone"]
    assert time.monotonic() - begun < 20.0


def test_folders_pipes_and_what_may_not_be_read_are_unknown(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    for path in ("src", "pipe"):
        assert one({"path": path, "sha256": "0" * 64}, tree).state == "unknown"
    assert one({"url": "https://example.org"}, tree).state == "unknown"
    assert worst_of([]) is None


def test_ten_megabytes_are_hashed_and_what_is_far_larger_is_not(tree: Path) -> None:
    (tree / "large.bin").write_bytes(b"engramq!" * (10 * 1024 * 1024 // 8))
    git(tree, "add", "large.bin")
    assert one(cited(tree, "large.bin"), tree) == Freshness("fresh")
    with (tree / "huge.bin").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    git(tree, "update-index", "--add", "--cacheinfo", f"100644,{git(tree, 'hash-object', '-w', 'recipe.txt')},huge.bin")
    assert one({"path": "huge.bin", "sha256": "0" * 64}, tree).why == "it is too large"


def test_in_no_repository_everything_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "alone.txt").write_text(LINES)
    assert states([cited(tmp_path, "alone.txt")], tmp_path) == ["unknown"]
    with pytest.raises(NotCitable):
        cite("alone.txt", folder=str(tmp_path))


def test_a_repository_without_a_commit_compares_by_hashes(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "new.txt", LINES)
    citation = cite("new.txt", folder=str(tmp_path))
    assert sorted(citation) == ["path", "sha256"]
    assert one(citation, tmp_path).why == "git does not track it"
    git(tmp_path, "add", "new.txt")
    assert one(citation, tmp_path) == Freshness("fresh")
    (tmp_path / "new.txt").unlink()
    assert one(citation, tmp_path).state == "unknown"


def test_a_memory_of_no_project_is_compared_where_its_commit_is(tree: Path, tmp_path: Path) -> None:
    citation = cite("recipe.txt", folder=str(tree))
    other = repository(tmp_path / "stranger", recipe="another recipe\n")
    assert one(citation, tree, is_here=False) == Freshness("fresh")
    assert one(citation, other, is_here=False).state == "unknown"
    assert one({"path": "recipe.txt", "sha256": "0" * 64}, tree, is_here=False).state == "unknown"


def test_where_git_cannot_follow_a_file_what_is_known_of_others_stays(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    git(tree, "checkout", "--quiet", "--orphan", "unborn")
    write(tree, "recipe.txt", "rewritten")
    by_commit, by_hash = {"path": "recipe.txt", "commit": head}, {"path": "recipe.txt", "sha256": "0" * 64}
    missing = {"path": "nowhere.txt", "sha256": "0" * 64}
    told = compare([Cited([by_commit, missing]), Cited([{**by_hash, "commit": head}], is_here=False)], str(tree), 20.0)
    assert [[each.state for each in found] for found in told] == [["changed", "unknown"], ["changed"]]
    assert told[0][1].why.startswith("git: ")


def put_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program in front of git that does what the script says."""
    program = folder / "bin" / "git"
    write(program.parent, "git", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("names", "state"), [("*", "changed"), ("{}", "changed"), ("{}/*", "unknown"), ("/srv", "unknown"), ("", "unknown")]
)
def test_a_repository_of_another_user_is_read_where_this_one_says_so(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, state: str
) -> None:
    citation = {"path": "recipe.txt", "commit": git(tree, "rev-parse", "HEAD")}
    write(tree, "recipe.txt", "rewritten")
    put_git(tmp_path, monkeypatch, f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"')
    write(tmp_path / "home", ".gitconfig", f"[safe]\n\tdirectory = {names.format(tree)}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    found = one(citation, tree)
    assert found.state == state
    assert ("safe.directory" in found.why) == (state == "unknown")
    assert cite("src/oven.txt", folder=str(tree)).get("commit") == (None if found.why else citation["commit"])


def test_that_git_took_too_long_is_said_without_its_command(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_git(tmp_path, monkeypatch, "exec sleep 600")
    with pytest.raises(GitFailed, match=r"^it took too long$"):
        Repository(str(tree), time.monotonic() + 1.0).has(["HEAD"])


def test_when_the_time_is_up_it_is_unknown(tree: Path) -> None:
    found = one(cited(tree, "recipe.txt"), tree, budget_s=0.0)
    assert (found.state, found.why) == ("unknown", "there is no time left")


def test_nothing_that_a_repository_configures_is_run(tree: Path) -> None:
    marker = tree / "ran"
    tool = f"sh -c 'touch {marker}; cat'"
    write(tree, ".gitattributes", "* filter=evil diff=evil\n")
    git(tree, "config", "filter.evil.clean", tool)
    git(tree, "config", "filter.evil.smudge", tool)
    head = git(tree, "rev-parse", "HEAD")
    for name in ("core.fsmonitor", "diff.external", "diff.evil.command", "diff.evil.textconv", "gpg.program",
                 "core.pager", "core.sshCommand", "core.gitProxy", "credential.helper"):  # fmt: skip
        git(tree, "config", name, tool)
    git(tree, "config", "log.showSignature", "true")
    hook = tree / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    citations = [cited(tree, "recipe.txt"), {"path": "src/oven.txt", "commit": head}, {"path": "no.txt", "sha256": "0"}]
    (tree / "recipe.txt").rename(tree / "moved.txt")
    marker.unlink(missing_ok=True)
    assert states(citations, tree) == ["fresh", "fresh", "unknown"]
    assert not marker.exists()


def test_a_thousand_citations_take_less_than_a_third_of_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number in range(1_000):
        write(folder, f"part{number % 20}/file{number}.txt", LINES + f"this is {number}\n")
    commit(folder)
    citations = [cited(folder, f"part{number % 20}/file{number}.txt") for number in range(1_000)]
    assert timed(citations, folder, {"fresh": 1_000}) < 0.3
    for number in range(100):
        file = folder / f"part{number % 20}/file{number}.txt"
        file.rename(file.with_name(f"other{number}.txt"))
    commit(folder)
    assert timed(citations, folder, {"fresh": 1_000}) < 0.3
    for number in range(100, 250):
        write(folder, f"part{number % 20}/file{number}.txt", "rewritten\n")
    assert timed(citations, folder, {"fresh": 850, "changed": 150}) < 0.3


def cpu_s() -> float:
    """Return what this process and git have computed: others on the machine change that little."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def timed(citations: list[dict[str, str]], folder: Path, expected: dict[str, int]) -> float:
    memories = [Cited(citations[at : at + 10]) for at in range(0, len(citations), 10)]
    took: list[float] = []
    for _ in range(3):
        began = cpu_s()
        found = [each.state for several in compare(memories, str(folder), 20.0) for each in several]
        took.append(cpu_s() - began)
        assert {state: found.count(state) for state in set(found)} == expected
    return min(took)
