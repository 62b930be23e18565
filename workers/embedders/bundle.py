"""Which model files engramq ships, and how to tell that they are whole.

Knows: their place and checksums. Written by hand from what `python -m tools.minilm.build` prints.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "minilm"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MODEL_SHA256 = "54f75b302aa7f5550f01b276e2fa1b1206f88570398bb0eda532af2b3c30373a"
INT8_FILE = "model_int8.onnx"  # the same weights in int8 arithmetic; reads the token table of the other file
INT8_SHA256 = "a092e00af0ca17e9704ddf834dbaa9e01e7bb035d34eb5e0e2d06e5712a557b5"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def alike(sha256: str) -> frozenset[str]:
    """Return the digests of the models that mean the same by a vector: both arithmetics of the bundled one."""
    bundled = frozenset((MODEL_SHA256, INT8_SHA256))
    return bundled if sha256 in bundled else frozenset((sha256,))
