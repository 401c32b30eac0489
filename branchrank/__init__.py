"""BranchRank benchmarks systems that search documentation.

The names in ``__all__`` are the public API. The module that defines a name is imported only when the name is
first used, so that ``import branchrank`` is fast.
"""

import logging

TYPE_CHECKING = (
    False  # type checkers treat TYPE_CHECKING as true; importing `typing` would double the import time
)
if TYPE_CHECKING:
    from branchrank import errors as errors
    from branchrank import library as library
    from branchrank.corpus.locating import Anchor as Anchor
    from branchrank.corpus.locating import locate as locate
    from branchrank.measures.comparison import Comparison as Comparison
    from branchrank.records import Answer as Answer
    from branchrank.records import Hit as Hit
    from branchrank.records import LLMUse as LLMUse
    from branchrank.records import Passage as Passage
    from branchrank.records import Predictor as Predictor
    from branchrank.records import Question as Question
    from branchrank.run import Run as Run
    from branchrank.spec import System as System
    from branchrank.workspace import Workspace as Workspace

__version__ = "0.1.0"

_HOMES = {
    "Anchor": "branchrank.corpus.locating",
    "Answer": "branchrank.records",
    "Comparison": "branchrank.measures.comparison",
    "Hit": "branchrank.records",
    "LLMUse": "branchrank.records",
    "Passage": "branchrank.records",
    "Predictor": "branchrank.records",
    "Question": "branchrank.records",
    "Run": "branchrank.run",
    "System": "branchrank.spec",
    "Workspace": "branchrank.workspace",
    "locate": "branchrank.corpus.locating",
}
__all__ = sorted((*_HOMES, "errors", "library"))

# The application that uses this library decides where log records go.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("errors", "library"):
        return import_module(f"branchrank.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
