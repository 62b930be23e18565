"""The tokenizer as the library `tokenizers` reads it, and what characters are replaced by beforehand. Pure."""

import json

from engramq.workers.embedders.e5.packed import Pieces

SPACE = "\u2581"  # what SentencePiece writes for a space


def tokenizer(pieces: Pieces) -> bytes:
    """Return the file `tokenizer.json`."""
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(pieces, one) for one in (pieces.begin, pieces.padding, pieces.end, pieces.unknown)],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": _template(pieces),
        "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": pieces.unknown,
            "vocab": [[piece, score] for piece, score in zip(pieces.pieces, pieces.scores.tolist(), strict=True)],
            "byte_fallback": False,
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def replacements(pieces: Pieces) -> bytes:
    """Return what characters are replaced by, as JSON: code points in hexadecimal, and texts."""
    told = {f"{character:x}": text for character, text in sorted(pieces.replaced.items())}
    return json.dumps(told, separators=(",", ":")).encode()


def _special(pieces: Pieces, one: int) -> dict[str, object]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": one, "content": pieces.pieces[one], **plain}


def _template(pieces: Pieces) -> dict[str, object]:
    begin, end = pieces.pieces[pieces.begin], pieces.pieces[pieces.end]
    first, last = ({"SpecialToken": {"id": one, "type_id": 0}} for one in (begin, end))
    ids = {begin: pieces.begin, end: pieces.end}
    return {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}, last],
        "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, last, {"Sequence": {"id": "B", "type_id": 0}}, last],
        "special_tokens": {name: {"id": name, "ids": [one], "tokens": [name]} for name, one in ids.items()},
    }
