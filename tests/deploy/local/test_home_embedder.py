"""A home goes on with the embedder that made its vectors: no variable that is left out turns it to another."""

import pytest

from engramq.deploy.local.home import Home
from engramq.deploy.local.settings import EMBEDDER, EMBEDDER_URL, kept_embedder, with_embedder
from engramq.schemas.embedder_choice import KeptEmbedder, text_of

OWN = "http://127.0.0.1:9/v1"


def test_a_start_that_names_none_goes_on_with_the_one_before(home: Home) -> None:
    home.ensure()
    assert EMBEDDER not in with_embedder(home, {})
    home.embedder.write_text(text_of(KeptEmbedder("e5")))
    assert with_embedder(home, {}) == with_embedder(home, {EMBEDDER: ""}) == {EMBEDDER: "e5"}
    assert with_embedder(home, {EMBEDDER: "hash"}) == {EMBEDDER: "hash"}


def test_an_endpoint_of_ones_own_comes_with_its_name(home: Home) -> None:
    home.ensure()
    home.embedder.write_text(text_of(KeptEmbedder("openai:some/model@512", OWN)))
    key = {"OPENAI_API_KEY": "sk-1"}
    assert with_embedder(home, key) == key | {EMBEDDER: "openai:some/model@512", EMBEDDER_URL: OWN}
    assert with_embedder(home, {EMBEDDER_URL: "http://other/v1"})[EMBEDDER_URL] == "http://other/v1"
    assert EMBEDDER_URL not in with_embedder(home, {EMBEDDER: "openai:another"})


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\n\n", b"a\x00b\n\n", b"x" * 5000 + b"\n\n", b"", b"e5", b"e5\n\nmore\n"]
)
def test_a_file_that_nobody_wrote_so_is_left_aside(home: Home, content: bytes) -> None:
    home.ensure()
    home.embedder.write_bytes(content)
    assert kept_embedder(home) == KeptEmbedder()
    assert with_embedder(home, {}) == {}
