"""Folders that are short enough, closed to others, and never shared; settings and embedder that stay a home's own."""

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from engramq.deploy.local import settings
from engramq.deploy.local.home import DeployError, Home, private_folder, replace_whole
from engramq.deploy.local.settings import EMBEDDER, EMBEDDER_URL, kept_embedder, with_embedder
from engramq.deploy.local.supervisor.state import shut_down
from engramq.schemas import vocabulary
from engramq.schemas.embedder_choice import KeptEmbedder, encode_choice
from engramq.schemas.settings import SETTINGS
from tests.deploy.helpers import BOUND_S, OTHER, USER, needs_root


def test_folders_are_closed_to_others(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.ensure()

    folders = [home.path, home.logs, home.redis, home.run]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 4


def test_the_sockets_of_an_over_long_home_go_to_a_short_folder_of_its_own(tmp_path: Path) -> None:
    long, other = (Home(tmp_path / ("x" * 120) / name) for name in ("one", "two"))
    long.ensure()
    try:
        assert max(len(os.fsencode(each.postgres_sockets / ".s.PGSQL.5432.lock")) for each in (long, other)) <= 103
        assert long.run == Home(long.path).run
        assert long.run != other.run
        assert stat.S_IMODE(long.run.stat().st_mode) == 0o700
    finally:
        shutil.rmtree(long.run)


def test_a_home_is_the_same_by_every_way_that_leads_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "home")
    monkeypatch.chdir(tmp_path)

    assert Home(Path("home")).run == Home(tmp_path / "link").run == Home(tmp_path / "home").run


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()

    for name in ("link", "file"):
        with pytest.raises(DeployError, match=name):
            private_folder(tmp_path / name)


def test_a_text_that_cannot_be_written_leaves_the_former_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    replace_whole(file, "former")
    with pytest.raises(UnicodeEncodeError):
        replace_whole(file, "\ud800")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("notes", "former")]


def test_threads_that_replace_one_file_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "notes"
    together = Barrier(4, timeout=BOUND_S)
    change_mode = os.fchmod

    def await_others(descriptor: int, mode: int) -> None:
        together.wait()
        change_mode(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", await_others)
    texts = [str(number) * 9 for number in range(4)]
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(partial(replace_whole, file), texts))
    assert file.read_text() in texts
    assert list(tmp_path.iterdir()) == [file]


def test_nothing_is_written_through_a_link_that_somebody_has_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "notes"
    elsewhere.write_text("somebody's")
    monkeypatch.setattr(os, "urandom", bytes)
    planted = tmp_path / f".notes.{bytes(8).hex()}"
    planted.symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        replace_whole(file, "ours")
    assert (elsewhere.read_text(), file.exists()) == ("somebody's", False)


def test_a_folder_that_others_could_enter_is_closed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    private_folder(tmp_path / "open")

    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


def test_defaults_and_names_are_those_of_the_one_table() -> None:
    table = {setting.variable: setting.default for setting in SETTINGS}

    assert vocabulary.DEFAULT_NAMESPACE == settings.DEFAULT_NAMESPACE == table[settings.NAMESPACE]
    assert vocabulary.DEFAULT_PRINCIPAL == settings.DEFAULT_PRINCIPAL == table[settings.PRINCIPAL]
    assert vocabulary.SYSTEM_PRINCIPAL == settings.SYSTEM_PRINCIPAL
    assert table[settings.HOST] == settings.DEFAULT_HOST
    assert table[settings.AUTH] == settings.DEFAULT_AUTH
    assert table[settings.EMBEDDER] == settings.DEFAULT_EMBEDDER
    assert table[settings.PORT] == str(settings.DEFAULT_PORT)
    assert table.keys() >= settings.FOR_HTTP | settings.DECISIVE


def test_a_new_home_takes_the_login_name_and_one_with_data_keeps_its_principal(home: Home) -> None:
    own = [{settings.DATABASE_URL: "postgresql://db/memories"}, {settings.REDIS_URL: "redis://queue"}]
    assert settings.principal_of(home, {}) == USER
    assert settings.principal_of(home, {settings.PRINCIPAL: "ada"}) == "ada"
    assert [settings.principal_of(home, each) for each in own] == ["I/O", "I/O"]

    home.ensure()
    settings.note_principal(home)
    (home.postgres / "data").mkdir(parents=True)
    assert [settings.principal_of(home, each) for each in ({}, *own)] == [USER] * 3

    home.principal.unlink()  # as a home of an earlier release has none
    settings.note_principal(home)
    assert settings.principal_of(home, {}) == "I/O"


def test_a_stack_is_told_apart_by_what_concerns_all_its_clients() -> None:
    mine = {"ENGRAMQ_EMBEDDER": "hash", "ENGRAMQ_NAMESPACE": "a", "ENGRAMQ_DEGREE_CAP": "", "PATH": "/bin"}
    theirs = {"ENGRAMQ_EMBEDDER": "minilm", "ENGRAMQ_NAMESPACE": "b", "ENGRAMQ_LINK_THRESHOLD": ".5"}

    differing = settings.differing(settings.stack_settings(mine), settings.stack_settings(theirs))
    assert differing == ["ENGRAMQ_EMBEDDER", "ENGRAMQ_LINK_THRESHOLD"]
    own = {"ENGRAMQ_EMBEDDER": "openai:m", "ENGRAMQ_EMBEDDER_URL": "http://127.0.0.1:9/v1"}
    for stack, asked, names in (
        ({}, {"ENGRAMQ_EMBEDDER": settings.DEFAULT_EMBEDDER}, []),
        ({"ENGRAMQ_EMBEDDER": "e5"}, {}, []),
        ({"ENGRAMQ_EMBEDDER": "e5"}, {"ENGRAMQ_EMBEDDER": settings.DEFAULT_EMBEDDER}, ["ENGRAMQ_EMBEDDER"]),
        ({}, {"ENGRAMQ_EMBEDDER": "e5"}, ["ENGRAMQ_EMBEDDER"]),
        (own, {}, []),
        (own, {"ENGRAMQ_EMBEDDER": "openai:m"}, ["ENGRAMQ_EMBEDDER_URL"]),
    ):
        assert settings.differing_from_stack(settings.stack_settings(stack), settings.stack_settings(asked)) == names


@pytest.mark.parametrize("text", ["-1", "soon", "nan", "inf", "86401"])
def test_a_bad_linger_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(DeployError, match="ENGRAMQ_TEST_LINGER_S"):
        settings.linger_s({"ENGRAMQ_TEST_LINGER_S": text})


@pytest.mark.parametrize("text", ["-1", "65536", "http", "٣", "1.5"])
def test_a_bad_port_is_refused_by_name(text: str) -> None:
    with pytest.raises(DeployError, match="ENGRAMQ_PORT"):
        settings.port({"ENGRAMQ_PORT": text})


@pytest.mark.promise("SE-15")
def test_a_home_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    for folder, mode in ((empty, 0o777), (full, 0o775)):
        folder.mkdir()
        folder.chmod(mode)
    Home(empty).ensure()  # nothing was there yet
    assert stat.S_IMODE(empty.stat().st_mode) & 0o022 == 0

    (full / "local.conf").touch()
    for refused in (Home(full).ensure, lambda: shut_down(Home(full))):
        with pytest.raises(DeployError, match=rf"write to {full}.*chmod go-w"):
            refused()
    assert [entry.name for entry in full.iterdir()] == ["local.conf"]  # nothing was made in it


@pytest.mark.promise("SE-15")
@needs_root
def test_a_home_of_another_user_or_with_their_files_is_refused_by_root_too(tmp_path: Path) -> None:
    theirs, mixed = Home(tmp_path / "theirs"), Home(tmp_path / "mixed")
    theirs.path.mkdir(mode=0o700)
    os.chown(theirs.path, OTHER, OTHER)
    with pytest.raises(DeployError, match=r"not a folder of this user, but of .*Run engramq as its owner"):
        theirs.ensure()
    with pytest.raises(DeployError, match="not a folder of this user"):
        shut_down(theirs)

    mixed.ensure()
    for planted in (mixed.path / "supervisor.json", mixed.redis / "redis.conf", mixed.run / "gateway.sock"):
        planted.touch()
        mixed.ensure()  # its own files are no reason
        os.chown(planted, OTHER, OTHER)
        with pytest.raises(DeployError, match=f"{planted} belongs to"):
            mixed.ensure()
        planted.unlink()
    mixed.ensure()


OWN = "http://127.0.0.1:9/v1"


def test_a_start_that_names_none_goes_on_with_the_one_before(home: Home) -> None:
    home.ensure()
    assert EMBEDDER not in with_embedder(home, {})
    home.embedder.write_text(encode_choice(KeptEmbedder("e5")))
    assert with_embedder(home, {}) == with_embedder(home, {EMBEDDER: ""}) == {EMBEDDER: "e5"}
    assert with_embedder(home, {EMBEDDER: "hash"}) == {EMBEDDER: "hash"}


def test_an_endpoint_of_ones_own_comes_with_its_name(home: Home) -> None:
    home.ensure()
    home.embedder.write_text(encode_choice(KeptEmbedder("openai:some/model@512", OWN)))
    key = {"OPENAI_API_KEY": "sk-1"}
    assert with_embedder(home, key) == key | {EMBEDDER: "openai:some/model@512", EMBEDDER_URL: OWN}
    assert with_embedder(home, {EMBEDDER_URL: "http://other/v1"})[EMBEDDER_URL] == "http://other/v1"
    assert EMBEDDER_URL not in with_embedder(home, {EMBEDDER: "openai:another"})


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\n\n", b"a\x00b\n\n", b"x" * 5000 + b"\n\n", b"", b"e5", b"e5\n\nmore\n"]
)
def test_a_file_that_nobody_wrote_so_is_left_aside(home: Home, content: bytes) -> None:
    home.ensure()
    home.embedder.write_bytes(content)
    assert kept_embedder(home) == KeptEmbedder()
    assert with_embedder(home, {}) == {}
