"""The stdio relay: many clients on one stack, a conversation that outlives gateways, supervisors and whole stacks."""

import os
import signal
from pathlib import Path

import pytest

from engramq.deploy.local.embedded.process import is_alive
from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.projects import project_of
from engramq.deploy.local.supervisor.state import shut_down
from tests.deploy.helpers import BOUND_S, USER, Client, await_true, identity, is_stopped, service, status_of
from tests.deploy.local.hooks.test_projects import git, repository


@pytest.mark.promise("OP-2")
def test_several_clients_share_one_gateway_each_with_its_own_identity(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as first, Client(environment, "--principal", "critic", "--tools=core") as second:
        one = first.ask("initialize")["result"]
        other = second.ask("initialize")["result"]

    assert one["pid"] == other["pid"]
    own = one["hello"].pop("session")
    nobody_named = {"principal": USER, "actor": "I/O"}
    assert one["hello"] == {"engramq": 1, "namespace": "default_user", **nobody_named, "output_schemas": False}
    assert own.startswith("stdio-")
    assert other["hello"]["session"] not in (own, "")
    assert (other["hello"]["principal"], "actor" in other["hello"]) == ("critic", False)
    assert other["hello"]["tools"] == "core"


@pytest.mark.promise("OV-15")
def test_the_project_of_a_client_is_its_option_or_its_variable(home: Home, environment: dict[str, str]) -> None:
    mars = {**environment, "ENGRAMQ_PROJECT": "mars"}
    with Client(environment) as none, Client(mars) as one, Client(mars, "--project", "*") as other:
        hellos = [client.ask("initialize")["result"]["hello"] for client in (none, one, other)]
    assert [hello.get("project") for hello in hellos] == [None, "mars", "*"]


def project_at(environment: dict[str, str], folder: Path | str, *options: str) -> str | None:
    """Return the project that a client's server is in which is started in a folder."""
    with Client(environment, *options, folder=folder) as client:
        project: str | None = client.ask("initialize")["result"]["hello"].get("project")
    return project


@pytest.mark.promise("KN-12")
def test_a_server_is_in_the_project_of_its_folder_as_hooks_are(
    home: Home, environment: dict[str, str], tmp_path: Path
) -> None:
    rover = repository(tmp_path / "rover")
    git(rover, "worktree", "add", "--quiet", str(tmp_path / "elsewhere" / "rover-fix"))
    namesake = repository(tmp_path / "acme" / "rover")
    (rover / "src" / "deep").mkdir(parents=True)
    places = (rover, rover / "src" / "deep", tmp_path / "elsewhere" / "rover-fix", namesake)
    assert [project_at(environment, place) for place in places] == ["rover", "rover", "rover", "acme/rover"]
    assert [project_of(home, "default_user", str(place)) for place in places] == [
        "rover",
        "rover",
        "rover",
        "acme/rover",
    ]
    assert project_at(environment, rover, "--project", "mars") == "mars"
    assert project_at({**environment, "ENGRAMQ_PROJECT": "*"}, rover) == "*"
    assert project_at({**environment, "ENGRAMQ_NAMESPACE": "other"}, namesake) == "rover"


@pytest.mark.promise("KN-12")
def test_a_server_that_starts_elsewhere_is_told_the_folder(environment: dict[str, str], tmp_path: Path) -> None:
    rover = repository(tmp_path / "rover")
    assert project_at(environment, "/", "--folder", str(rover)) == "rover"
    assert (
        project_at(environment, "/", f"--folder={rover}", "--principal", "Zo\N{LATIN SMALL LETTER E WITH DIAERESIS}")
        == "rover"
    )
    assert project_at(environment, rover, "--folder", "${workspaceFolder}") == "rover", "which nobody has filled in"
    assert project_at(environment, rover, "--folder", "/") is None


@pytest.mark.promise("KN-12")
def test_outside_of_repositories_a_server_is_in_no_project(
    home: Home, environment: dict[str, str], tmp_path: Path
) -> None:
    own = repository(tmp_path / "ada")  # who keeps the settings of programs in git
    plain = tmp_path / "plain"
    plain.mkdir()
    somebody = {**environment, "HOME": str(own)}
    assert [project_at(somebody, place) for place in ("/", own, plain, home.path)] == [None] * 4


@pytest.mark.promise("KN-12")
def test_an_odd_name_of_a_folder_is_a_word(environment: dict[str, str], tmp_path: Path) -> None:
    odd = repository(tmp_path / "no\tone\n  \x1b[31mknows*")
    assert project_at(environment, odd) == "no one [31mknows*"
    assert project_at(environment, repository(tmp_path / "*")) is None


def test_after_the_gateway_was_killed_the_client_goes_on_with_its_handshake_repeated(
    home: Home, environment: dict[str, str]
) -> None:
    with Client(environment) as client:
        client.shake_hands()
        client.tell("never", 7)
        before = client.ask("tools/list", 8)["result"]
        os.kill(before["pid"], signal.SIGKILL)

        lost = client.hear()
        after = client.ask("tools/list", 9)["result"]

    assert lost["id"] == 7
    assert lost["error"]["code"] == -32000
    assert lost["error"]["data"]["status"] == "pending"
    assert "idempotency_key" in lost["error"]["data"]["recovery"]
    assert after["pid"] != before["pid"]
    assert after["hello"] == before["hello"]
    assert after["seen"] == ["initialize", "notifications/initialized", "tools/list"]


def test_a_client_without_handshake_goes_on_without_one(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as client:
        before = client.ask("tools/list", 1)["result"]
        client.tell("never", 2)
        client.ask("ping", 3)
        os.kill(before["pid"], signal.SIGKILL)
        assert client.hear()["id"] == 2

        assert client.ask("tools/call", 4)["result"]["seen"] == ["tools/call"]


def test_a_client_that_falls_back_to_initialize_gets_another_connection(
    home: Home, environment: dict[str, str]
) -> None:
    with Client(environment) as client:
        client.ask("server/discover", 1)
        assert client.ask("initialize", 2)["id"] == 2
        assert client.ask("tools/list", 3)["result"]["seen"] == ["initialize", "tools/list"]
        assert client.ask("initialize", 4)["id"] == 4  # which is refused, and no fallback
        assert client.ask("tools/list", 5)["result"]["seen"][:2] == ["initialize", "tools/list"]


def test_a_handshake_under_way_is_answered_by_the_next_gateway(home: Home, environment: dict[str, str]) -> None:
    (home.path / "slow-handshake").touch()
    with Client(environment) as client:
        client.tell("initialize", "first")
        before = client.ask("ping", 2)["result"]
        (home.path / "slow-handshake").unlink()
        os.kill(before["pid"], signal.SIGKILL)

        answer = client.hear()

    assert answer["id"] == "first"
    assert answer["result"]["pid"] != before["pid"]


@pytest.mark.promise("OP-3")
def test_after_the_supervisor_was_killed_the_client_goes_on(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as client:
        client.shake_hands()
        client.tell("never", 7)
        client.ask("ping")
        before = status_of(home)["pid"]
        os.kill(before, signal.SIGKILL)

        assert client.hear()["error"]["data"]["status"] == "pending"
        assert "result" in client.ask("tools/list", 9)

    assert status_of(home)["pid"] != before


def test_an_idle_client_leaves_a_stopped_stack_stopped_and_its_next_request_starts_it(
    home: Home, environment: dict[str, str]
) -> None:
    with Client(environment) as client:
        client.shake_hands()
        shut_down(home)
        assert client.process.stderr is not None
        # It says so once it has seen the end, and has then decided what to do about it.
        assert b"was stopped" in client.process.stderr.readline()
        assert is_stopped(home)

        assert client.ask("tools/list", 2)["result"]["seen"][0] == "initialize"


def test_without_a_gateway_each_request_gets_an_error_until_there_is_one(
    home: Home, environment: dict[str, str]
) -> None:
    (home.path / "gateway-broken").touch()
    with Client(environment) as client:
        first = client.ask("initialize", 1)
        second = client.ask("tools/list", 2)
        (home.path / "gateway-broken").unlink()
        await_true(lambda: service(home, "gateway")["state"] == "ready")
        # It rests after a failure, so it may take a few requests.
        await_true(lambda: "result" in client.ask("tools/list", 3))

    assert first["error"]["data"]["code"] == "unavailable"
    assert "the gateway is broken on purpose" in first["error"]["message"]
    assert second["id"] == 2
    assert second["error"]["data"]["status"] == "error"


def test_when_no_supervisor_can_be_started_each_request_gets_an_error_until_one_can(
    home: Home, environment: dict[str, str]
) -> None:
    home.ensure()
    unusable = home.logs / "supervisor.log"
    unusable.mkdir()
    with Client(environment) as client:
        first = client.ask("initialize", 1)
        unusable.rmdir()
        await_true(lambda: "result" in client.ask("tools/list", 2))

    assert first["error"]["data"]["code"] == "unavailable"
    assert "supervisor cannot be started" in first["error"]["message"]


def test_what_was_asked_before_stdin_closed_is_still_answered(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as client:
        for number in range(50):
            client.tell("tools/list", number)
        client.close_stdin()
        answers = [client.hear()["id"] for _ in range(50)]

        assert answers == list(range(50))
        assert client.process.wait(BOUND_S) == 0


def test_a_client_that_closes_stdout_ends_its_relay_and_its_hold(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as keeper, Client(environment) as client:
        keeper.ask("ping")
        client.ask("ping")
        assert client.process.stdout is not None
        client.process.stdout.close()
        client.tell("tools/list", 2)
        assert client.process.wait(BOUND_S) == 0
        await_true(lambda: len(status_of(home)["leases"]) == 1)


def test_a_killed_client_gives_its_hold_back(home: Home, environment: dict[str, str]) -> None:
    with Client(environment | {"ENGRAMQ_TEST_LINGER_S": "0"}) as client:
        client.ask("ping")
        gateway = identity(service(home, "gateway")["pid"])
        client.process.kill()
        await_true(lambda: is_stopped(home))

    assert not is_alive(gateway)


def test_large_messages_pass_whole_in_both_directions(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as client:
        answer = client.ask("tools/call", 1, size=3_000_000, ballast="y" * 3_000_000)

    assert len(answer["result"]["filling"]) == 3_000_000


def test_what_the_gateway_says_unasked_reaches_the_client(home: Home, environment: dict[str, str]) -> None:
    with Client(environment) as client:
        assert client.ask("notify-first", 1)["method"] == "notifications/message"
        assert client.hear()["id"] == 1


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "words"),
    [
        (["--namespace", "refused"], {}, 1, "That namespace is refused."),
        (["--nonsense"], {}, 2, "--nonsense"),
        (["--tools"], {}, 2, "'--tools' requires an argument"),
        ([], {"ENGRAMQ_TEST_LINGER_S": "soon"}, 2, "ENGRAMQ_TEST_LINGER_S"),
        ([], {"ENGRAMQ_PORT": "http"}, 2, "ENGRAMQ_PORT"),
        ([], {"ENGRAMQ_OUTPUT_SCHEMAS": "maybe"}, 2, "ENGRAMQ_OUTPUT_SCHEMAS"),
    ],
)
def test_what_only_the_user_can_mend_is_refused_at_the_start(
    environment: dict[str, str], arguments: list[str], variables: dict[str, str], code: int, words: str
) -> None:
    with Client(environment | variables, *arguments) as client:
        assert client.process.wait(BOUND_S) == code
        assert client.process.stderr is not None
        assert words in client.process.stderr.read().decode()
