"""The predictors that a server offers for one open workspace.

1. The index, the embedding model and the predictors' branches are loaded before the first request.
2. A predictor that can't run is listed with the reason, and requests for it are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from branchrank.errors import LLMError, UsageError
from branchrank.library import ToolAnswer, read_filters
from branchrank.records import Retrieval
from branchrank.workspace import Workspace


def check_filters(filters: Sequence[str]) -> None:
    """Raise :class:`FilterRefused` if a filter has an unknown key or no value."""
    try:
        read_filters(filters)
    except UsageError as error:
        raise FilterRefused(f"{error.message}; {error.remedy}") from None


class PredictorRefused(Exception):
    """Error for a predictor that is not served or can't run."""


class FilterRefused(Exception):
    """Error for a filter with an unknown key or without a value. The message lists the known keys."""


class Service:
    """A thread-safe service that answers queries on one workspace with the chosen predictors."""

    def __init__(self, workspace: Workspace, predictors: Sequence[str]) -> None:
        """Check the predictors and their LLM endpoints.

        Raises :class:`UsageError` if no predictor can run.
        """
        self.workspace = workspace
        self.refused: dict[str, str] = {}
        ready = []
        for name in workspace.predictor_names(predictors):
            try:
                workspace.check_llm(name)
            except (UsageError, LLMError) as error:
                self.refused[name] = error.message
            else:
                ready.append(name)
        if not ready:
            raise UsageError(
                f"no predictor can be served: {'; '.join(self.refused.values())}",
                remedy="choose other predictors with --predictor",
            )
        self.predictors = tuple(ready)

    def warm_up(self) -> None:
        """Load the index, the model and the branches before the first request, without calling an LLM."""
        self.workspace.warm_up(self.predictors)

    def retrieve(
        self, query: str, k: int, predictor: str = "", filters: Sequence[str] = ()
    ) -> tuple[str, Retrieval]:
        """Run a query, and return the name and the result of the predictor.

        Raises :class:`PredictorRefused` if the predictor can't be used, and :class:`FilterRefused` for an
        invalid filter.
        """
        name = self._served(predictor)
        check_filters(filters)
        return name, self.workspace.retrieve(query, name, k, filters=filters)

    def tool_search(self, query: str, predictor: str, limit: int, filters: Sequence[str] = ()) -> ToolAnswer:
        """Run a query with a predictor, and return the result in the form that the search tools use."""
        system = self.workspace.system(self._served(predictor))
        return self.workspace.tools.predictor_search(system, query, limit=limit, filters=filters)

    def _served(self, predictor: str) -> str:
        name = predictor or self.predictors[0]
        if name in self.refused:
            raise PredictorRefused(self.refused[name])
        if name not in self.predictors:
            raise PredictorRefused(
                f"the predictor {name!r} is not served; choose from {', '.join(self.predictors)}"
            )
        return name
