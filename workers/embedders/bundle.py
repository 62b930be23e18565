"""Which model files engramq ships, and how to tell that they are whole.

Knows: their place and checksums. Written by hand from what `python -m tools.minilm.build` prints.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "minilm"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MODEL_SHA256 = "54f75b302aa7f5550f01b276e2fa1b1206f88570398bb0eda532af2b3c30373a"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
