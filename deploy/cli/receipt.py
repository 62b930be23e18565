"""`engramq receipt`: prove to somebody else what was done. `engramq verify FILE` checks such a receipt."""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import operating
from engramq.deploy.cli.options import identifier
from engramq.deploy.cli.output import json_line, printable
from engramq.deploy.cli.tool_client import URL
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of
from engramq.schemas.commands import MakeReceipt, ReceiptMade
from engramq.schemas.receipts import ChainedEntry, SignedReceipt

FILE_BYTES: Final = 16 * 1024 * 1024
KEY_PATH: Final = "/.well-known/engramq.json"
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")


@click.command("receipt")
@click.argument("command_id", metavar="[COMMAND_ID]", type=identifier, required=False)
@click.option("--erased", metavar="ID", type=identifier, help="Prove that this memory, edge or node was erased.")
@click.option("--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
@common.NAMESPACE
def command(command_id: Any, erased: Any, out: Path | None, namespace: str | None) -> None:
    """Print a signed receipt of what a command did, or of how something was erased.

    It holds no content of a memory, so you can give it to anybody: engramq verify FILE checks it without a network. The
    public key is served at /.well-known/engramq.json.
    """
    if (command_id is None) is (erased is None):
        raise click.UsageError("Give the id of a command (engramq audit shows it), or --erased ID.")
    wanted = MakeReceipt(command_id=str(command_id)) if erased is None else MakeReceipt(erased=str(erased))
    with operating("receipt", namespace) as place:
        receipt = place.client.reply_to(wanted, ReceiptMade).receipt
    if receipt is None:
        nothing = f"of command {command_id}" if erased is None else f"that {erased} was erased"
        raise CommandFailed(f"The audit log of {place.name} says nothing {nothing}; plain stores have no entry.")
    text = msgspec.json.format(msgspec.json.encode(receipt)).decode()
    if out is None:
        click.echo(text)
        return
    out.write_text(f"{text}\n", encoding="utf-8")
    click.echo(f"Wrote {out}. Check it with: engramq verify {out}")


def verify_receipt(
    file: Path, key: str | None, *, as_json: bool, live: bool = False, namespace: str | None = None
) -> ExitCode:
    """Check a receipt without a network: its hashes, its signature, and whose key made that.

    `key` is the public key in hex, or a file with what /.well-known/engramq.json answered. None: the receipt's own,
    which proves only that nobody has changed it since. `live`: compare it with the audit log as well, in the namespace
    of the receipt unless another is named; the key is then that of the installation, unless one was given.
    """
    receipt = _read(file)
    problem = _problem(receipt, None if key is None else _public_key(key))
    difference, blanked = None, 0
    if live and problem is None:
        difference, blanked = _compare_with_log(receipt, namespace, any_key=key is not None)
    if as_json:
        about: dict[str, Any] = {"valid": problem is None, "problem": problem, "public_key": receipt.public_key}
        about |= {"key_given": key is not None, "entries": len(receipt.proven)}
        if live:
            about |= {"live": problem is None and difference is None, "difference": difference, "blanked": blanked}
        click.echo(json_line(about))
    elif problem is None:
        _show(receipt, named=key is not None or (live and difference is None))
    if problem is not None and not as_json:
        raise CommandFailed(printable(f"{file} proves nothing: {problem}."))
    if difference is not None and not as_json:
        raise CommandFailed(printable(f"The audit log says otherwise now: {difference}."))
    if live and not as_json:
        erased = (
            f" Of {count_of(blanked, 'entry', 'entries')} the words were erased since, or are private to another."
            if blanked
            else ""
        )
        click.echo(f"The audit log has the same, unchanged and in the same place.{erased}")
    return ExitCode.DONE if problem is None and difference is None else ExitCode.FAILED


def _compare_with_log(receipt: SignedReceipt, namespace: str | None, *, any_key: bool) -> tuple[str | None, int]:
    """Return how the audit log differs from a receipt, as a part of a sentence, and of how many entries words went."""
    found: dict[int, ChainedEntry] = {}
    commands = {entry.command_id: None for entry in receipt.proven if entry.command_id is not None}
    targets = {entry.target_id: None for entry in receipt.proven if entry.target_id is not None}
    questions = [MakeReceipt(command_id=identifier) for identifier in commands]
    questions += [MakeReceipt(erased=identifier) for identifier in targets]  # a long purge is in none of its command
    of_token = URL in os.environ  # which says the namespace
    with operating("receipt", namespace or (None if of_token else receipt.namespace)) as place:
        for question in questions:
            if all(entry.id in found for entry in receipt.proven):
                break
            live = place.client.reply_to(question, ReceiptMade).receipt
            if live is not None and live.public_key != receipt.public_key and not any_key:
                return f"{place.name} has another key, {live.public_key}", 0
            found |= {entry.id: entry for entry in (() if live is None else live.proven)}
    for entry in receipt.proven:
        if entry.id not in found:
            return f"entry {entry.id} is not in the audit log of {place.name}", 0
        if difference := _difference(entry, found[entry.id]):
            return f"entry {entry.id} {difference}", 0
    return None, sum(entry.body is not None and found[entry.id].body is None for entry in receipt.proven)


def _difference(proven: ChainedEntry, live: ChainedEntry) -> str | None:
    if live.place != proven.place:
        return f"is at place {live.place}, and was at {proven.place}"
    problem = live.problem()
    if problem is None and (live.hash, live.previous) != (proven.hash, proven.previous):
        problem = "the chain up to it was made anew"
    return None if problem is None else f"was changed: {problem}"


def _show(receipt: SignedReceipt, *, named: bool) -> None:
    for entry in receipt.proven:
        target = f" {entry.target_id}" if entry.target_id else ""
        what = f"{entry.at}  {entry.action}{target}  by {entry.actor} in {receipt.namespace}"
        click.echo(printable(f"{what}  entry {entry.id}, place {entry.place} of the audit log"))
        if entry.brought_at is not None:
            brought = f"An export of {entry.brought_from} brought it on {entry.brought_at}"
            click.echo(printable(f"  {brought}. Whether it is true this installation does not know."))
    if receipt.omitted:
        click.echo(f"{count_of(receipt.omitted, 'more entry', 'more entries')} of the same command are not in it.")
    click.echo("The receipt is as it was signed.")
    if not named:
        click.echo(
            f"Signed by key {printable(receipt.public_key)}. Compare that with the one at {KEY_PATH}, or give --key."
        )


def _problem(receipt: SignedReceipt, key: str | None) -> str | None:
    """Return what is wrong with a receipt, as a part of a sentence; None for nothing."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - 50 ms, for those who check
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - the same

    if key is not None and key != receipt.public_key:
        return f"it was signed by another key, {receipt.public_key}"
    try:
        made_by = Ed25519PublicKey.from_public_bytes(bytes.fromhex(receipt.public_key))
        made_by.verify(bytes.fromhex(receipt.signature), receipt.signed_bytes())
        problems = [(entry.id, entry.problem()) for entry in receipt.proven]
    except (InvalidSignature, ValueError):
        return "the signature is not of what it says"
    return next((f"entry {entry_id}: {problem}" for entry_id, problem in problems if problem is not None), None)


def _read(file: Path) -> SignedReceipt:
    with file.open("rb") as opened:
        data = opened.read(FILE_BYTES + 1)
    try:
        if len(data) > FILE_BYTES:
            raise ValueError(f"it is larger than {FILE_BYTES} bytes")
        return msgspec.json.decode(data, type=SignedReceipt)
    except ValueError as problem:
        raise CommandFailed(printable(f"{file} is no receipt: {problem}.")) from None


def _public_key(given: str) -> str:
    """Return the key that was given in hex, or in a file as the gateway serves it.

    A key is never the name of a file: the giver of a receipt may have put a key of his own beside it.
    """
    if _KEY.fullmatch(given.strip()) or not Path(given).is_file():
        return given.strip().lower()
    text = Path(given).read_text(encoding="utf-8").strip()
    try:
        return str(json.loads(text)["receipts"]["public_key"])
    except (ValueError, KeyError, TypeError):
        return text.lower()
