"""BranchRank benchmarks systems that search documentation.

The names in ``__all__`` are the public API. The module that defines a name is imported only when the name is
first used, so that ``import branchrank`` is fast.
"""

import logging

TYPE_CHECKING = (
    False  # type checkers treat TYPE_CHECKING as true; importing `typing` would double the import time
)
if TYPE_CHECKING:
    from branchrank import library as library
    from branchrank.core import errors as errors
    from branchrank.core.records import AgentAnswer as AgentAnswer
    from branchrank.core.records import Answer as Answer
    from branchrank.core.records import Hit as Hit
    from branchrank.core.records import LLMUse as LLMUse
    from branchrank.core.records import Passage as Passage
    from branchrank.core.records import Predictor as Predictor
    from branchrank.core.records import Question as Question
    from branchrank.core.spec import System as System
    from branchrank.documents.locating import Anchor as Anchor
    from branchrank.documents.locating import locate as locate
    from branchrank.run import Run as Run
    from branchrank.scoring.comparison import Comparison as Comparison
    from branchrank.workspace import Workspace as Workspace

__version__ = "0.1.0"

_HOMES = {
    "AgentAnswer": "branchrank.core.records",
    "Anchor": "branchrank.documents.locating",
    "Answer": "branchrank.core.records",
    "Comparison": "branchrank.scoring.comparison",
    "Hit": "branchrank.core.records",
    "LLMUse": "branchrank.core.records",
    "Passage": "branchrank.core.records",
    "Predictor": "branchrank.core.records",
    "Question": "branchrank.core.records",
    "Run": "branchrank.run",
    "System": "branchrank.core.spec",
    "Workspace": "branchrank.workspace",
    "locate": "branchrank.documents.locating",
}
_MODULES = {"errors": "branchrank.core.errors", "library": "branchrank.library"}
__all__ = sorted((*_HOMES, *_MODULES))

# The application that uses this library decides where log records go.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
