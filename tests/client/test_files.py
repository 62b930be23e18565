"""Paths, listings, numbered lines and edits of the memory tool, in the words of its documentation."""

import pytest

from engramq.client import files
from engramq.client.files import File, FileProblem

NOTES = "/memories/notes.txt"


def a_file(path: str, text: str = "", version: int = 1) -> File:
    return File("m", path, version, text, len(text.encode()), is_whole=True)


@pytest.mark.promise("RC-18")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "/memoriesque",
        "memories/a",
        "../memories/a",
        "/memories/../etc/passwd",
        "/memories/a/..",
        "/memories/./a",
        "/memories/%2e%2e/secret",
        "/memories/%2E%2E%2Fsecret",
        "/memories/..\\secret",
        "/memories/a\\b",
        "/memories/a\x00b",
        "/memories/a\nb",
        "/memories/\ud800",
        "/memories/" + "a" * 300,
    ],
)
def test_a_path_that_leaves_the_folder_is_refused(path: str) -> None:
    with pytest.raises(FileProblem, match="Error: Path "):
        files.clean_path(path)


def test_half_of_a_character_is_refused_by_its_line() -> None:
    with pytest.raises(FileProblem, match=r"^Error: Line 2 has half of a character in it"):
        files.describe_file(NOTES, 1, "whole\nhalf \udc00")


def test_a_path_is_written_in_one_way() -> None:
    assert [files.clean_path(path) for path in ("/memories/", "/memories//a/", "/memories/a..b/..c")] == [
        "/memories",
        "/memories/a",
        "/memories/a..b/..c",
    ]


@pytest.mark.promise("RC-18")
def test_a_file_is_shown_with_line_numbers_as_the_documentation_has_it() -> None:
    text = "Hello World\nThis is line two\n" + "\n" * 7 + "Line ten"
    shown = files.number_lines(a_file(NOTES, text), None).splitlines()
    assert shown[:3] == [
        f"Here's the content of {NOTES} with line numbers:",
        "     1\tHello World",
        "     2\tThis is line two",
    ]
    assert shown[-1] == "    10\tLine ten"
    assert files.number_lines(a_file(NOTES, text), [2, 3]).splitlines()[1:] == ["     2\tThis is line two", "     3\t"]
    assert files.number_lines(a_file(NOTES, text), [10, -1]).splitlines()[1:] == ["    10\tLine ten"]


@pytest.mark.parametrize("view_range", [[0, 1], [2, 1], [4, -1], [-3, 2]])
def test_lines_that_are_not_there_are_refused(view_range: list[int]) -> None:
    with pytest.raises(FileProblem, match=r"Invalid `view_range` parameter: .* lines of the file: \[1, 3\]"):
        files.number_lines(a_file(NOTES, "a\nb\nc"), view_range)


@pytest.mark.promise("RC-18")
def test_more_lines_than_a_view_may_have_are_refused() -> None:
    with pytest.raises(FileProblem) as refused:
        files.number_lines(a_file(NOTES, "\n" * 999_999), None)
    assert str(refused.value) == f"File {NOTES} exceeds maximum line limit of 999,999 lines."


@pytest.mark.promise("RC-18")
def test_a_folder_is_listed_two_levels_deep_with_sizes() -> None:
    listed = files.list_folder(
        "/memories",
        [
            a_file("/memories/.hidden", "x"),
            a_file("/memories/customers/ana/notes.md", "x" * 5632),
            a_file("/memories/customers/list.md", "x" * 1024),
            a_file("/memories/node_modules/a.js", "x"),
            a_file("/memories/notes.txt", "four"),
        ],
    )
    assert listed.splitlines() == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:",
        "6.5K\t/memories",
        "6.5K\t/memories/customers/",
        "5.5K\t/memories/customers/ana/",
        "1K\t/memories/customers/list.md",
        "4B\t/memories/notes.txt",
    ]
    assert files.list_folder("/memories", []).splitlines()[1:] == ["0B\t/memories"]


def test_a_listing_has_an_end() -> None:
    listed = files.list_folder("/memories", [a_file(f"/memories/{number:04}") for number in range(2_000)]).splitlines()
    assert (len(listed), listed[-1]) == (1_002, "... and 1001 more: view a folder")


@pytest.mark.promise("RC-18")
def test_a_text_is_replaced_where_it_stands_once() -> None:
    assert files.replace_once(NOTES, "Favorite color: blue\n", "blue", "green") == "Favorite color: green\n"
    for old in ("red", ""):
        with pytest.raises(FileProblem) as refused:
            files.replace_once(NOTES, "a\nb", old, "x")
        assert str(refused.value) == (
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {NOTES}."
        )
    with pytest.raises(FileProblem) as refused:
        files.replace_once(NOTES, "a\nb a\nc", "a", "x")
    assert str(refused.value) == (
        "No replacement was performed. Multiple occurrences of old_str `a` in lines: 1, 2. Please ensure it is unique"
    )


@pytest.mark.promise("RC-18")
@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("a\nb\n", 0, "x\na\nb\n"),
        ("a\nb\n", 1, "a\nx\nb\n"),
        ("a\nb", 2, "a\nb\nx\n"),
        ("", 0, "x\n"),
        ("\n", 1, "\nx\n"),
    ],
)
def test_lines_are_inserted_after_a_line(text: str, line: int, expected: str) -> None:
    assert files.insert_lines(text, line, "x\n") == files.insert_lines(text, line, "x") == expected


@pytest.mark.promise("RC-18")
@pytest.mark.parametrize("line", [-1, 3])
def test_a_line_that_is_not_there_takes_no_insertion(line: int) -> None:
    with pytest.raises(FileProblem) as refused:
        files.insert_lines("a\nb\n", line, "x")
    assert str(refused.value) == (
        f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, 2]"
    )


def test_a_change_is_shown_with_two_lines_around_it() -> None:
    before = "\n".join("abcdefg")
    assert files.show_change(before.replace("d", "D"), before).splitlines() == [
        "     2\tb", "     3\tc", "     4\tD", "     5\te", "     6\tf",
    ]  # fmt: skip
    assert files.show_change("a", "a\nb") == "     1\ta"
    assert files.show_change("a\nb", "a") == "     1\ta\n     2\tb"
