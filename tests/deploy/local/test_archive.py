"""What a backup's file holds comes back byte for byte; whatever is not as it was written is refused."""

import gzip
import io
import json
import tarfile
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramq.deploy.local.backup.archive import CHUNK, FORMAT, HEADER, KIND, MANIFEST, ArchiveReader, ArchiveWriter
from engramq.deploy.local.home import DeployError
from tests.deploy.local.archives import FILES, FOLDERS, HERE, backup, forged, member, packed


def contents(file: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files and folders of a backup."""
    files, folders = {}, []
    with file.open("rb") as source:
        for entry in ArchiveReader(source).entries():
            if entry.chunks is None:
                folders.append(entry.name)
            else:
                files[entry.name] = b"".join(entry.chunks)
    return files, folders


def refusal(file: Path) -> DeployError:
    with pytest.raises(DeployError) as refused:
        contents(file)
    return refused.value


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    file = backup(tmp_path / "x.backup")
    assert contents(file) == (FILES, list(FOLDERS))
    with file.open("rb") as source:
        reader = ArchiveReader(source)
        assert reader.header == HERE
        assert [entry.name for entry in reader.entries()] == [*FOLDERS, *FILES]  # also to whoever reads no contents
        assert len(list(reader.entries())) == len(FOLDERS) + len(FILES)


def test_a_backup_is_a_tar_that_other_tools_read(tmp_path: Path) -> None:
    with tarfile.open(backup(tmp_path / "x.tar.gz")) as tar:
        names = tar.getnames()
        manifest = json.load(tar.extractfile(MANIFEST) or io.BytesIO())
        modes = {info.mode for info in tar}
    assert names == [HEADER, *FOLDERS, *FILES, MANIFEST]
    assert manifest["files"]["postgres/local.conf"]["bytes"] == len(FILES["postgres/local.conf"])
    assert modes == {0o600, 0o700}


@pytest.mark.promise("IM-12")
def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = backup(tmp_path / "whole").read_bytes()
    cut = tmp_path / "cut"
    for length in {0, 1, 10, 18, *range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 8, len(whole) - 1}:
        cut.write_bytes(whole[:length])
        assert refusal(cut).code in {"backup_damaged", "not_a_backup"}, length


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize("behind", [b"\0", b"\0" * 100, b"x" * 3 * CHUNK, gzip.compress(b""), None], ids=range(5))
def test_a_file_with_bytes_behind_its_end_is_refused(tmp_path: Path, behind: bytes | None) -> None:
    whole = backup(tmp_path / "whole").read_bytes()
    (tmp_path / "longer").write_bytes(whole + (whole if behind is None else behind))
    refused = refusal(tmp_path / "longer")
    assert (refused.code, "something follows its end" in str(refused)) == ("backup_damaged", True)


@pytest.mark.promise("IM-12")
@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_of_which_a_bit_is_another_is_refused_unless_the_bit_means_nothing(
    tmp_path: Path, data: st.DataObject
) -> None:
    file = tmp_path / "whole"
    whole = file.read_bytes() if file.exists() else backup(file).read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    spoilt = tmp_path / "spoilt"
    changed = bytearray(whole)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    spoilt.write_bytes(changed)
    with suppress(DeployError):
        assert contents(spoilt) == (FILES, list(FOLDERS))  # gzip's own time, or what fills up a byte


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize("from_the_end", [8, 5, 4, 1], ids=["checksum", "checksum's end", "length", "length's end"])
def test_a_file_whose_last_checksum_or_length_is_another_is_refused(tmp_path: Path, from_the_end: int) -> None:
    """Nothing but the end of the reading asks for them where the tar ends with a whole chunk, as this one does."""
    filler = member("postgres/data/filler", bytes(5 * CHUNK - tarfile.RECORDSIZE))
    file = forged(tmp_path / "x.backup", filler)
    assert len(gzip.decompress(file.read_bytes())) == 5 * CHUNK
    assert contents(file)
    changed = bytearray(file.read_bytes())
    changed[-from_the_end] ^= 1
    file.write_bytes(changed)
    assert refusal(file).code == "backup_damaged"


@pytest.mark.parametrize("text", [b"", b"no backup", gzip.compress(b"", mtime=0), gzip.compress(b"x" * 9, mtime=0)])
def test_what_is_no_backup_is_called_so(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(text)
    assert refusal(file).code == "not_a_backup"


def test_other_tars_are_no_backups(tmp_path: Path) -> None:
    for name, text in (
        ("other.json", b"{}"),
        (HEADER, b"[]"),
        (HEADER, b'{"type": "other", "format": 1}'),
        (HEADER, json.dumps({"type": KIND, "format": FORMAT, "engramq": "1"}).encode()),
        (HEADER, json.dumps({"type": KIND, "format": FORMAT, "engramq": 1}).encode()),
        (HEADER, b" " * 100_000),
    ):
        assert refusal(packed(tmp_path / "x", [member(name, text)])).code in {"not_a_backup", "backup_damaged"}


@pytest.mark.parametrize("named", ["engramq", "made_at", "platform"])
def test_a_header_whose_texts_a_terminal_would_obey_is_none(tmp_path: Path, named: str) -> None:
    """Security finding 19."""
    said = refusal(backup(tmp_path / "x.backup", **{named: "9.9 \x1b]0;owned\x07"}))
    assert said.code == "not_a_backup"
    newer = refusal(backup(tmp_path / "y.backup", format=FORMAT + 1, engramq="9.9\x1b]0;owned\x07"))
    assert str(newer).isprintable()


def test_a_newer_format_is_named_with_the_release_that_reads_it(tmp_path: Path) -> None:
    newer = refusal(
        packed(tmp_path / "x", [member(HEADER, b'{"type": "%s", "format": 2, "engramq": "7.1"}' % KIND.encode())])
    )
    assert newer.code == "backup_newer"
    assert "engramq 7.1" in str(newer)


NAMES = (
    *("../x", "postgres/data/../../x", "/x", "//x", "postgres//x", "postgres/./x", ".", "..", "", "postgres\\x"),
    *(HEADER, "postgres/data/PG_VERSION"),
)


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_names_that_lead_elsewhere_or_twice_to_one_place_are_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    assert refusal(forged(tmp_path / "x", member(name, kind=kind))).code == "backup_damaged"


@pytest.mark.promise("IM-12")
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    link = member("postgres/data/x", kind=kind, link="/etc/passwd")
    assert "neither a file nor a folder" in str(refusal(forged(tmp_path / "x", link)))


def test_a_member_that_is_missing_added_or_another_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with tarfile.open(backup(file)) as tar:
        members = [(info, (tar.extractfile(info) or io.BytesIO()).read()) for info in tar]
    assert len(contents(packed(file, members))[0]) == len(FILES)
    place = next(index for index, (info, _) in enumerate(members) if info.name == "postgres/local.conf")
    other = member("postgres/local.conf", b"jit = no\n")
    for changed, named in (
        ([*members[:place], *members[place + 1 :]], "postgres/local.conf"),
        ([*members[:place], other, *members[place + 1 :]], "postgres/local.conf"),
        ([*members[:-1], member("postgres/more"), members[-1]], "postgres/more"),
        ([*members, member("postgres/more")], "something follows"),
        (members[:-1], "its end is missing"),
        ([*members[:-1], member(MANIFEST, b"{")], MANIFEST),
    ):
        assert named in str(refusal(packed(file, changed)))


def test_memory_does_not_grow_with_the_bytes(tmp_path: Path) -> None:
    size = 64 * 2**20
    file = tmp_path / "large"
    tracemalloc.start()
    try:
        with file.open("wb") as out, ArchiveWriter(out, HERE) as writer, Path("/dev/zero").open("rb") as zeros:
            writer.file("postgres/data/large", zeros, size)
        with file.open("rb") as source:
            read = sum(len(chunk) for entry in ArchiveReader(source).entries() for chunk in entry.chunks or ())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == size
    assert peak < 12 * 2**20


def test_what_breaks_off_leaves_no_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with file.open("wb") as out, pytest.raises(OSError, match="end of data"), ArchiveWriter(out, HERE) as writer:
        writer.file("postgres/data/short", io.BytesIO(b"12"), 3)
    assert refusal(file).code in {"backup_damaged", "not_a_backup"}
