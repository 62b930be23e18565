"""Tell a model, before a tool reads or changes a file, which memories name it or are close to it.

A file is no question, so that what a search calls an answer to its name need be none.
"""

import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from engramq.deploy.local.hooks.connection import HookConnection
from engramq.deploy.local.hooks.recall import REPLY_CHARS, SOURCE, MemoryBlock, mark_hits
from engramq.deploy.local.hooks.turns import RECALLED, disarm

TOKENS: Final = 200  # at most, as files are many
FILES: Final = 3  # of one patch
_HITS_MAX: Final = 12
_NAMED_MAX: Final = 4
_NEAR_MAX: Final = 1
_LEAST_RELEVANCE: Final = 0.45  # of a hit that does not name the file
_PATH_CHARS: Final = 200
_HEAD: Final = "{} Kept about {}, as data:"
_WITHIN_PATH: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-~@+/")


def file_mark(project: str, path: str) -> str:
    """Return a number that stands for a file in a session's notes, which hold no names."""
    return f"{zlib.crc32(json.dumps([project, path]).encode()):08x}"


def recall_file(
    memory: HookConnection, path: str, tokens: int, shown: Collection[str], *, folder: str
) -> tuple[str, list[str]]:
    """Return what to tell the model of a file of the connection's project, and the ids in it; "" for nothing.

    Files that memories cite are compared with those of the `folder`.
    """
    query = {"query": query_of(path), "limit": _HITS_MAX, "collapse_duplicates": True, "min_relevance": 0}
    hits = memory.call("search_memories", {**query, "max_chars": REPLY_CHARS}).get("memories") or ()
    near = about_file([hit for hit in hits if isinstance(hit, dict)], path)
    mark_hits(near, folder, memory.project, memory.until)
    block = MemoryBlock(RECALLED, _HEAD.format(SOURCE, disarm(path)[-_PATH_CHARS:]), min(tokens, TOKENS), path)
    for hit in near:
        if hit.get("id") not in shown:
            block.add(hit)
    return block.text(), block.ids


def query_of(path: str) -> str:
    """Return what a search is asked for a file: its path, its name, and the words in both."""
    name = path.rpartition("/")[2]
    words = path.replace("/", " ").replace("_", " ").replace("-", " ").replace(".", " ").split()
    return " ".join(dict.fromkeys((path, name, *words)))[-_PATH_CHARS * 2 :]


def about_file(hits: Sequence[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    """Return the hits to show for a file: those that name or cite it, then the nearest that names no other one.

    "token_store.go must not log" is near to session.go, and says nothing of it.
    """
    dot, ending = path.rpartition("/")[2].rpartition(".")[1:]
    named = [hit for hit in hits if names_file(str(hit.get("content")), path) or _cites(hit, path)]
    near = (hit for hit in hits if hit.get("relevance", 0) >= _LEAST_RELEVANCE and hit not in named)
    others = (hit for hit in near if not (dot and _has_ending(str(hit.get("content")), f".{ending}")))
    return [*named[:_NAMED_MAX], *islice(others, _NEAR_MAX)]


def _cites(hit: dict[str, Any], path: str) -> bool:
    evidence = hit.get("evidence")
    return isinstance(evidence, list) and any(isinstance(each, dict) and each.get("path") == path for each in evidence)


def _has_ending(text: str, ending: str) -> bool:
    """Say whether a text has a word that ends so, as ".py"."""
    return any(not part[:1].isalnum() for part in text.lower().split(ending.lower())[1:])


def names_file(text: str, path: str) -> bool:
    """Say whether a text names a file, by its name alone or by as much of its path as the text has.

    "src/app.py" is named by "app.py", "src/app.py" and "/home/ada/rover/src/app.py", not by "lib/app.py".
    """
    name = path.rpartition("/")[2]
    is_word = "." not in name and name == name.lower()  # "test" is a file's name only with its folder
    whole = f"/{path}".lower()
    for written in _mentions(text.lower(), name.lower()):
        if written == f"/{name.lower()}":
            if not is_word:
                return True
        elif whole.endswith(written) or written.endswith(whole):
            return True
    return False


def _mentions(text: str, name: str) -> Iterator[str]:
    """Give each path in a text that ends in a name, with a slash before it."""
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        after = text[end : end + 2]
        begin = at
        while begin > max(0, at - _PATH_CHARS) and text[begin - 1] in _WITHIN_PATH:
            begin -= 1
        before = text[begin:at].lstrip("~.")
        is_end = not (after[:1].isalnum() or after[:1] in ("_", "-") or (after[:1] == "." and after[1:].isalnum()))
        if is_end and (not before or before.endswith("/")):
            yield f"/{before.lstrip('/')}{name}"
        at = text.find(name, at + 1)
