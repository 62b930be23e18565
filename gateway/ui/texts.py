"""Set texts of memories: Markdown as people read it, and what two texts differ in, word by word.

All that a memory holds is escaped before a tag is put around it; of HTML in it nothing becomes markup.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from markupsafe import Markup

COMPARED_WORDS: Final = 800  # of each text
EQUAL_PAIRS: Final = 20_000  # of a word in each text: "a b a b" and "a a a a" of 800 words take 3 s; prose has a third
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}+(?=[^`]*$)|~{3,}+)")
_LANGUAGE: Final = re.compile(r"[\w+#.-]{0,20}")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$")
_ITEM: Final = re.compile(r"^ {0,3}(?:([-*+])|(\d{1,6})[.)])[ \t]+(.*)$")
_QUOTE: Final = re.compile(r"^ {0,3}> ?(.*)$")
# Marks in a line: code, a link, strong and stressed words. An address ends where a blank or a bracket does.
# No power is strong (2**3**4); words of Chinese are, though no blank stands around them.
_INLINE: Final = re.compile(
    r"(?P<ticks>`+)(?P<code>[^`\n]+)(?P=ticks)(?!`)"
    r"|\[(?P<text>[^\[\]\n]{1,200})\]\((?P<url>https?://[^\s()<>\"]{1,500})\)"
    r"|(?<![\w(\[])(?P<bare>https?://[^\s()<>\[\]\"]{1,500}[\w/])"
    r"|(?<![A-Za-z0-9_*])\*\*(?=\S)(?P<strong>[^*\n]{1,500})(?<=\S)\*\*(?![A-Za-z0-9_*])"
    r"|(?<![\w*])\*(?P<stress>[^*\s][^*\n]{0,300})\*(?![\w*])"
)
# Marks that lists leave out: fences with the name of their language, signs of headings, and marks around words.
_MARKS: Final = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[\w+#.-]{0,20}[ \t]*(?:\n(?P<block>.*?))?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|^ {0,3}#{1,6}[ \t]+(?=\S)"
    r"|(?P<ticks>`+)(?P<code>[^`\n]+)(?P=ticks)(?!`)"
    r"|(?<![A-Za-z0-9_*])\*\*(?=\S)(?P<strong>[^*\n]+)(?<=\S)\*\*(?![A-Za-z0-9_*])",
    re.MULTILINE | re.DOTALL,
)
_LISTS: Final = {"ul": Markup("<ul{}>{}</ul>"), "ol": Markup("<ol{}>{}</ol>")}
_CHANGES: Final = {"del": Markup("<del>{}</del>{}"), "ins": Markup("<ins>{}</ins>{}")}
_UNSEEN_KINDS: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters and marks that show nothing: fillers, joiners of combining marks, variation selectors, the blank of braille.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_UNUSUAL: Final = re.compile(r"[^\n\t -~]")
_WORD: Final = re.compile(r"\S+\s*|\s+")


def reveal(text: str) -> Markup:
    """Return a text with what is invisible in it named: an instruction may hide in it from whom it asks to be promoted.

    It also names variation selectors and tags, which can carry any text.
    """
    shown, at = Markup(""), 0
    for found in _UNUSUAL.finditer(text):  # each character escaped by itself took half of the time of a page
        if unicodedata.category(found[0]) in _UNSEEN_KINDS or _UNSEEN.match(found[0]) is not None:
            shown += text[at : found.start()]
            shown += _name_character(found[0])
            at = found.end()
    return shown + text[at:]


def _name_character(char: str) -> Markup:
    name = unicodedata.name(char, "no character")
    return Markup('<span class="unseen" title="{}">U+{}</span>').format(name, f"{ord(char):04X}")


def set_markdown(text: str) -> Markup:
    """Return a text with its code, lists, headings and links set as such. Links go to http and https alone."""
    return Markup("\n").join(_blocks(text.splitlines()))


def _blocks(lines: list[str]) -> Iterator[Markup]:
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
        elif fence := _FENCE.match(lines[at]):
            end = _end_of_code(lines, at, fence[1])
            begin = at + 1 if _LANGUAGE.fullmatch(lines[at].strip(" \t`~")) else at  # more than that is not hidden
            yield Markup('<pre tabindex="0"><code>{}</code></pre>').format(reveal("\n".join(lines[begin:end])))
            at = end + 1
        elif heading := _HEADING.match(lines[at]):
            yield Markup('<p class="heading">{}</p>').format(_inline(_without_closing(heading[1])))
            at += 1
        else:
            kind = _kind(lines[at])
            end = at + 1
            while end < len(lines) and _continues(lines[end], kind):
                end += 1
            yield _block(kind, lines[at:end])
            at = end


def _without_closing(heading: str) -> str:
    """Return the words of a heading without the signs that may close it, as in "# Keys #"; "# C#" has none."""
    words = heading.rstrip()
    before = words.rstrip("#")
    return before.rstrip() if not before or before[-1].isspace() else words


def _end_of_code(lines: list[str], begin: int, fence: str) -> int:
    ends = (place for place in range(begin + 1, len(lines)) if lines[place].strip().startswith(fence))
    return next(ends, len(lines))


def _kind(line: str) -> str:
    item = _ITEM.match(line)
    if item:
        return "ul" if item[1] else "ol"
    return "blockquote" if _QUOTE.match(line) else "p"


def _continues(line: str, kind: str) -> bool:
    if not line.strip() or _FENCE.match(line) or _HEADING.match(line):
        return False
    of_line = _kind(line)
    return of_line == kind or (of_line == "p" and kind in ("ul", "ol"))


def _block(kind: str, lines: list[str]) -> Markup:
    if kind == "p":
        return Markup("<p>{}</p>").format(_inline("\n".join(lines)))
    if kind == "blockquote":
        said = "\n".join(match[1] for line in lines if (match := _QUOTE.match(line)))
        return Markup("<blockquote>{}</blockquote>").format(_inline(said))
    items: list[str] = []
    for line in lines:
        item = _ITEM.match(line)
        if item:
            items.append(item[3])
        else:
            items[-1] += f"\n{line.strip()}"
    number = _ITEM.match(lines[0])
    start = Markup(' start="{}"').format(int(number[2])) if number and number[2] and int(number[2]) != 1 else ""
    shown = Markup("").join(Markup("<li>{}</li>").format(_inline(item)) for item in items)
    return _LISTS[kind].format(start, shown)


def drop_marks(text: str) -> str:
    """Return a text, or its beginning, without the marks of Markdown, for a line of a list; code stays as it is."""
    return _MARKS.sub(lambda found: found["block"] or found["code"] or found["strong"] or "", text)


def _inline(text: str) -> Markup:
    shown, at = Markup(""), 0
    for found in _INLINE.finditer(text):
        shown += reveal(text[at : found.start()]) + _set_mark(found)
        at = found.end()
    return shown + reveal(text[at:])


def _set_mark(found: re.Match[str]) -> Markup:
    if found["code"] is not None:
        return Markup("<code>{}</code>").format(reveal(found["code"]))
    if found["strong"] is not None:
        return Markup("<strong>{}</strong>").format(_inline(found["strong"]))
    if found["stress"] is not None:
        return Markup("<em>{}</em>").format(reveal(found["stress"]))
    address = found["url"] or found["bare"]
    link = Markup('<a href="{}" rel="noopener noreferrer">{}</a>').format(address, reveal(found["text"] or address))
    # Where the words of a link say something else than it, the reader sees where it leads.
    return link + Markup(' <span class="muted">({})</span>').format(address.split("/")[2]) if found["text"] else link


def compare_texts(old: str, new: str, is_markdown: bool) -> Markup | None:
    """Return what changed between two texts as `mark_changes` does, without the marks of Markdown.

    The marks stay where nothing else changed, and in a text that the page does not set as Markdown.
    """
    plain = (drop_marks(old), drop_marks(new))
    return mark_changes(*(plain if is_markdown and plain[0] != plain[1] else (old, new)))


def mark_changes(old: str, new: str) -> Markup | None:
    """Return the new text with what was taken out and put in marked, None for texts that take too long to compare."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if max(len(before), len(after)) > COMPARED_WORDS:
        return None
    here, there = ([word.strip() for word in words] for words in (before, after))
    counts = Counter(there)
    if sum(counts[word] for word in here) > EQUAL_PAIRS:
        return None
    matcher = SequenceMatcher(None, here, there, autojunk=False)
    shown = Markup("")
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            shown += reveal("".join(after[begin:end]))
            continue
        for tag, words in (("del", before[first:last]), ("ins", after[begin:end])):
            said: str = "".join(words)
            if said:
                shown += _CHANGES[tag].format(reveal(said.rstrip()), said[len(said.rstrip()) :] or " ")
    return shown
