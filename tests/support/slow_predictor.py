"""A predictor that takes a while and tells which processes it runs in."""

from __future__ import annotations

import os
import time
from pathlib import Path

from support.predictors import passage

from branchrank.core.records import Hit


class Slow:
    """Waits at each query; notes its process in the folder ``SLOW_NOTES``."""

    name = "slow"

    def retrieve(self, query: str, k: int) -> list[Hit]:
        if notes := os.environ.get("SLOW_NOTES"):  # a node of a cluster has its own variables
            (Path(notes) / str(os.getpid())).touch()
        time.sleep(float(os.environ.get("SLOW_S", "0.25")))
        return [passage("install.rst", 1, 15)]
