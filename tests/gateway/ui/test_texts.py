"""Texts as the page sets them: Markdown without HTML, and changes word by word."""

import time

import pytest

from engramq.gateway.ui.texts import COMPARED_WORDS, compare_texts, drop_marks, mark_changes, set_markdown

REL = 'rel="noopener noreferrer"'
HOST = '<span class="muted">(example.org)</span>'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada drinks tea", "<p>Ada drinks tea</p>"),
        ("one\ntwo\n\nthree", "<p>one\ntwo</p>\n<p>three</p>"),
        ("# Keys #\ntext", '<p class="heading">Keys</p>\n<p>text</p>'),
        ("# C#\n## #", '<p class="heading">C#</p>\n<p class="heading"></p>'),
        ("```sh\nrm `x` **y**\n```\nend", '<pre tabindex="0"><code>rm `x` **y**</code></pre>\n<p>end</p>'),
        ("```\nnever closed", '<pre tabindex="0"><code>never closed</code></pre>'),
        ("- a\n- b\n  goes on", "<ul><li>a</li><li>b\ngoes on</li></ul>"),
        ("3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("> said\n> so", "<blockquote>said\nso</blockquote>"),
        ("run `ls -l`, **stop** *now*", "<p>run <code>ls -l</code>, <strong>stop</strong> <em>now</em></p>"),
        ("2 * 3 * 4 and snake_case_name", "<p>2 * 3 * 4 and snake_case_name</p>"),
        ("2 ** 3 ** 4, 2**3**4, a**b; c**d", "<p>2 ** 3 ** 4, 2**3**4, a**b; c**d</p>"),
        ("茶**好**喝", "<p>茶<strong>好</strong>喝</p>"),
        (
            "[the book](https://example.org/?b=1&c=2)",
            f'<p><a href="https://example.org/?b=1&amp;c=2" {REL}>the book</a> {HOST}</p>',
        ),
        ("see https://a.org/b.", f'<p>see <a href="https://a.org/b" {REL}>https://a.org/b</a>.</p>'),
    ],
)
def test_markdown_is_set_as_people_read_it(text: str, shown: str) -> None:
    assert str(set_markdown(text)) == shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Checklist\n- **never** on `Friday`", "Checklist\n- never on Friday"),
        ("Retry:\n```python\n# wait\n**x**\n```\nend", "Retry:\n# wait\n**x**\n\nend"),
        ("~~~\ncut in its mid", "cut in its mid"),
        ("``` two words are no language\n# C#", "``` two words are no language\nC#"),
        ("2 ** 3 ** 4, `one", "2 ** 3 ** 4, `one"),
        ("2**3**4, x = a**b; y = c**d", "2**3**4, x = a**b; y = c**d"),
        ("#tag and # alone\n# ", "#tag and # alone\n# "),
    ],
)
def test_a_line_of_a_list_shows_a_text_without_its_marks(text: str, line: str) -> None:
    assert drop_marks(text) == line


def test_what_is_invisible_in_a_text_is_named() -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    said = f"a{hidden}\n\n`b{hidden}`\n\n[c{hidden}](https://example.org)\n\n- **d{hidden}**\n\n~~~ e {hidden}\nf\n~~~"
    shown = str(set_markdown(said))
    assert shown.count("U+E006F") == 5
    assert "\U000e006f" not in shown
    assert "~~~ e" in shown, "only the name of a language is left out"
    assert str(mark_changes("a", f"a b{hidden}")).count("U+E006F") == 1


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<b>)",
        "```\n</code></pre><script>alert(1)</script>\n```",
        "# <img src=x onerror=alert(1)>",
        "- <b onclick=x>\n> <i>",
        '[x](https://a"onmouseover="b)',
        "**<b>**",
        "`<b>`",
    ],
)
def test_html_and_strange_addresses_stay_text(text: str) -> None:
    shown = str(set_markdown(text))
    for own in ("p", "ul", "li", "code", "pre", "strong", "em", "blockquote"):
        shown = shown.replace(f"<{own}>", "").replace(f"</{own}>", "")
    shown = shown.replace('<p class="heading">', "").replace('<pre tabindex="0">', "")
    assert "<" not in shown
    assert "href" not in shown


def test_what_two_texts_differ_in_is_marked_word_by_word() -> None:
    assert str(mark_changes("The port is 9411 and open", "The port is 9412 and <open>")) == (
        "The port is <del>9411</del> <ins>9412</ins> and <del>open</del> <ins>&lt;open&gt;</ins> "
    )
    assert str(mark_changes("same  words", "same words")) == "same words"
    assert mark_changes("a " * (COMPARED_WORDS + 1), "b") is None


@pytest.mark.parametrize(
    ("old", "new", "is_markdown", "shown"),
    [
        ("# Port\n`9411`", "# Port\n`9412`", True, "Port\n<del>9411</del> <ins>9412</ins> "),
        ("**bold**", "# bold", True, "<del>**bold**</del> <ins># bold</ins> "),
        ("`9411`", "`9412`", False, "<del>`9411`</del> <ins>`9412`</ins> "),
    ],
)
def test_a_comparison_shows_marks_of_markdown_only_where_they_alone_changed(
    old: str, new: str, is_markdown: bool, shown: str
) -> None:
    assert str(compare_texts(old, new, is_markdown)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "[" * 32_000,
        "*" * 32_000,
        "`" * 32_000,
        "**a" * 10_000,
        "[a](https://" * 2_500,
        f"# {'#' * 32_000}x",
        f"# {' ' * 32_000}x",
        f"```{'a' * 32_000}`",
        f"{'~' * 32_000}`",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    set_markdown(text)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("new", ["b a ", "a a ", "a c "])
def test_no_comparison_takes_long(new: str) -> None:
    began = time.process_time()
    for words in (199, COMPARED_WORDS):
        mark_changes("a b " * (words // 2), new * (words // 2))
    assert time.process_time() - began < 1.0
