"""Named places at which a test can kill the process, as a power cut would.

``BRANCHRANK_FAILPOINT=published`` ends the process with SIGKILL when it reaches that place; nothing is
flushed and no handler runs. Without the variable a failpoint does nothing.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "BRANCHRANK_FAILPOINT"


def failpoint(name: str) -> None:
    """Kill the process here if the environment asks for it."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
