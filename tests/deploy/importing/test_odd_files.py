"""Files in odd shapes that are valid all the same: what people wrote in them comes in, and what stays out is named."""

import json
import zipfile
from pathlib import Path

import pytest

from engramq.deploy.importing.formats import format_of
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import exports
from tests.deploy.importing.test_foreign_forms import CHATGPT, MEM0, read
from tests.deploy.importing.test_readers import rows

pytestmark = pytest.mark.promise("SN-3")


@pytest.mark.parametrize("name", ["mem0.json", "export/mem0.json", "export\\mem0.json"])
def test_an_archive_that_a_mac_or_windows_has_packed_is_read_as_any_other(tmp_path: Path, name: str) -> None:
    archive, chats = tmp_path / "export.zip", tmp_path / "chats.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(name, json.dumps(exports.MEM0))
        packed.writestr("__MACOSX/._mem0.json", b"\0\5\x16\7")
        packed.writestr("__MACOSX\\._mem0.json", b"\0\5\x16\7")
    assert len(rows(read(archive, MEM0))) == len(exports.MEM0["results"])
    with zipfile.ZipFile(chats, "w") as packed:
        packed.writestr(name.replace("mem0", "conversations"), json.dumps(exports.CHATGPT))
    assert format_of(chats) is ForeignFormat.CHATGPT
    assert len(rows(read(chats, CHATGPT))) == 2
