"""`engramq webhook` as an operator calls it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engramq.schemas.command_line import ExitCode
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import WebhookEvent
from tests.conftest import Database
from tests.terminal import Terminal
from tests.workers.webhooks.receiver import receiving


@pytest.fixture
def terminal(
    database: Database,
    redis_url: str,
    key_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    variables = {"DATABASE_URL": database.url, "REDIS_URL": redis_url, "KEY_PREFIX": Keys(key_prefix).prefix}
    for name, value in (variables | {"HOME": str(tmp_path), "WEBHOOKS_PRIVATE": "1"}).items():
        monkeypatch.setenv(f"ENGRAMQ_{name}", value)
    return partial(Terminal(capsys), "webhook")


async def test_a_webhook_is_added_listed_tested_and_removed(terminal: Any) -> None:
    async with receiving() as receiver:
        code, out, err = await terminal("add", receiver.url(), "--event", WebhookEvent.PROMOTED.value, "--json")
        assert code == ExitCode.DONE, err
        webhook_id = json.loads(out)["id"]
        code, out, _ = await terminal("list", "--json")
        assert (code, json.loads(out)["id"], json.loads(out)["url"]) == (ExitCode.DONE, webhook_id, receiver.url())
        code, _, err = await terminal("test", webhook_id)
        assert code == ExitCode.DONE, err
        (told,) = await receiver.wait_for(1)
        assert told.message["type"] == "webhook.test"
    code, out, _ = await terminal("test", webhook_id)
    assert code == ExitCode.FAILED, "nobody listens there any more"
    assert (await terminal("dead"))[0] == ExitCode.DONE
    assert (await terminal("retry", webhook_id))[0] == ExitCode.FAILED, "no message is dead"
    assert (await terminal("remove", webhook_id))[0] == ExitCode.DONE
    code, _, err = await terminal("list")
    assert (code, "there are none" in err) == (ExitCode.DONE, True)
    assert (await terminal("remove", webhook_id))[0] == ExitCode.FAILED
