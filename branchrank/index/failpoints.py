"""Failpoints are named places in the code where a test can kill the process to simulate a power cut.

``BRANCHRANK_FAILPOINT=published`` kills the process with SIGKILL at the failpoint ``published``, without
flushing files or running exit handlers. Without this environment variable, failpoints do nothing.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "BRANCHRANK_FAILPOINT"


def failpoint(name: str) -> None:
    """Kill the process if the environment variable ``BRANCHRANK_FAILPOINT`` has the value ``name``."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
