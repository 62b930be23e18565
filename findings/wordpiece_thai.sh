#!/bin/sh
# tokenizers 0.23.3: two Thai sentences of more than 100 characters are one and the same token to WordPiece.
#
# Load: a WordPiece model as BERT has it, whose words are all Thai letters and signs, each at a word's beginning and within
# it, so nothing is unknown. Two sentences of a hundred and some characters, of a kettle and of a pot; Thai puts no spaces
# between words. As controls, each sentence's first 100 characters, and the whole with a space after each 50.
# Expected: as many tokens as the sentences have characters, and others for the pot than for the kettle.
# Real: [UNK], once, for each of the two. max_input_chars_per_word is 100 unless it is set, and a sentence is one word to
# BertPreTokenizer. So an embedder gets the same input for both and makes one vector; search cannot tell the memories
# apart. Of a hundred characters, or with a space, every letter counts. Nothing warns, and the vocabulary has every letter.
#
# Output seen on 2026-12-01:
#   tokenizers 0.23.3: characters [111, 118], tokens [['[UNK]'], ['[UNK]']]; of the first 100 [100, 100]; with spaces [111, 118]
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
cat > "$folder/look.py" <<'PYTHON'
from importlib.metadata import version

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

KETTLE = "กาต้มน้ำสีฟ้าอยู่ในครัวข้างหน้าต่างและต้องเติมน้ำทุกเช้าก่อนที่ทุกคนจะตื่นนอนเพราะทุกคนชอบดื่มชาร้อนตอนเช้าตรู่"
POT = "หม้อสีเขียวอยู่ในตู้ใต้อ่างล้างจานและต้องล้างด้วยมือทุกครั้งหลังจากทำอาหารเสร็จเพราะเครื่องล้างจานทำให้สีของหม้อซีดจาง"
letters = [chr(code) for code in range(0x0E01, 0x0E4F)]
pieces = ["[UNK]", *letters, *(f"##{letter}" for letter in letters)]
tokenizer = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
tokenizer.normalizer = BertNormalizer(lowercase=False)  # as of models with cases, which keeps the signs of vowels
tokenizer.pre_tokenizer = BertPreTokenizer()


def tokens(text):
    return tokenizer.encode(text).tokens


def spaced(text):
    return " ".join(text[at : at + 50] for at in range(0, len(text), 50))


whole = [tokens(text) for text in (KETTLE, POT)]
shorter = [len(tokens(text[:100])) for text in (KETTLE, POT)]
apart = [len(tokens(spaced(text))) for text in (KETTLE, POT)]
characters = [len(KETTLE), len(POT)]
print(f"tokenizers {version('tokenizers')}: characters {characters}, tokens {whole}; of the first 100 {shorter}; with spaces {apart}")
assert min(characters) > 100
assert whole == [["[UNK]"], ["[UNK]"]]
assert shorter == [100, 100] and apart == characters
PYTHON
"$folder/venv/bin/python" "$folder/look.py"
