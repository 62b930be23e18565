"""Receipts over a gateway, and checked by somebody who has none (SE-20)."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import structs

from engramq.deploy.cli import main
from engramq.schemas.command_line import ExitCode
from engramq.schemas.receipts import ChainedEntry, SignedReceipt
from tests.deploy.cli.test_tool_commands import Shell, here, shell
from tests.gateway.conftest import keys, redis_url
from tests.gateway.test_identity_end_to_end import Served, settings

__all__ = ["here", "keys", "redis_url", "settings", "shell"]

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("SE-20")]


async def test_an_outsider_checks_a_receipt_without_a_network(
    here: Served, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = (await shell.run("store", "The harbour has four cranes", "--source-type", "research")).strip()
    await shell.run("verify", memory, "--yes")
    judged = json.loads(await shell.run("audit", "--action", "verify", "--json"))
    file, key = tmp_path / "receipt.json", tmp_path / "key.json"
    assert f"engramq verify {file}" in await shell.run("receipt", judged["command_id"], "--out", str(file))
    status, body = await here.site.ask("GET", "/.well-known/engramq.json")
    assert status == 200, "anybody may read the key"
    key.write_bytes(body)
    assert json.loads(await shell.run("audit", "--verify", "--json"))["places"] == 3, "two tokens, one verdict"
    assert "unchanged and in the same place" in await shell.run("verify", str(file), "--live")
    await shell.run("verify", memory, "--live", code=ExitCode.MISUSED)

    monkeypatch.setenv("ENGRAMQ_URL", "http://127.0.0.1:1")  # nobody answers there
    out = await shell.run("verify", str(file), "--key", str(key))
    assert f"verify {memory}" in out
    assert "Compare that" not in out
    assert "Compare that" in await shell.run("verify", str(file))
    await shell.run("verify", str(file), "--key", "00" * 32, code=ExitCode.FAILED)
    assert "signed by another key" in shell.err

    whole = json.loads(file.read_text())
    for change in ({"actor": "somebody"}, {"at": "2020-01-01T00:00:00.000000+00:00"}, {"place": 7}, {"body": "{}"}):
        file.write_text(json.dumps(whole | {"proven": [whole["proven"][0] | change]}))
        await shell.run("verify", str(file), code=ExitCode.FAILED)
        assert "proves nothing" in shell.err, change
    assert json.loads(await shell.run("verify", str(file), "--json", code=ExitCode.FAILED))["valid"] is False

    forger = Ed25519PrivateKey.generate()
    entry = msgspec.convert(whole["proven"][0] | {"body": "{}"}, ChainedEntry)
    forged = structs.replace(
        msgspec.convert(whole, SignedReceipt), proven=[entry], public_key=forger.public_key().public_bytes_raw().hex()
    )
    signature = forger.sign(forged.signed_bytes()).hex()
    file.write_bytes(msgspec.json.encode(structs.replace(forged, signature=signature)))
    await shell.run("verify", str(file), code=ExitCode.FAILED)
    assert "its words were changed" in shell.err, "whoever signed it"

    # The forger hands over a folder in which a file is called as the true key.
    forged = msgspec.convert(whole, SignedReceipt)
    forged = structs.replace(forged, public_key=forger.public_key().public_bytes_raw().hex())
    file.write_bytes(msgspec.json.encode(structs.replace(forged, signature=forger.sign(forged.signed_bytes()).hex())))
    monkeypatch.chdir(tmp_path)
    (tmp_path / whole["public_key"]).write_text(json.dumps({"receipts": {"public_key": forged.public_key}}))
    await shell.run("verify", str(file), "--key", whole["public_key"], code=ExitCode.FAILED)
    assert "signed by another key" in shell.err

    file.write_text("{}")
    await shell.run("verify", str(file), code=ExitCode.FAILED)
    assert "is no receipt" in shell.err


async def test_what_a_receipt_says_reaches_a_terminal_printable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hide = "\x1b[8m"
    forger = Ed25519PrivateKey.generate()
    fields: dict[str, Any] = dict.fromkeys(("at", "actor", "action", "target_id", "brought_at", "brought_from"), hide)
    digest = hashlib.sha256().hexdigest()
    entry = ChainedEntry(
        id=1, place=1, command_id=None, body=None, salt=None, digest=digest, previous=digest, hash="", **fields
    )
    receipt = SignedReceipt(
        namespace=hide, made_at=hide, proven=[structs.replace(entry, hash=entry.hash_now())],
        public_key=forger.public_key().public_bytes_raw().hex(),
    )  # fmt: skip
    file = tmp_path / "receipt.json"
    file.write_bytes(msgspec.json.encode(structs.replace(receipt, signature=forger.sign(receipt.signed_bytes()).hex())))
    assert await asyncio.to_thread(main, ["verify", str(file)]) == ExitCode.DONE
    out, _ = capsys.readouterr()
    assert "An export of" in out
    for told in (receipt, {"\x1b[8m": 1}, structs.replace(receipt, public_key=hide)):
        file.write_bytes(msgspec.json.encode(told))
        assert await asyncio.to_thread(main, ["verify", str(file), "--key", "00" * 32]) == ExitCode.FAILED
    out, err = (a + b for a, b in zip(capsys.readouterr(), (out, ""), strict=True))
    assert "\x1b" not in out + err
