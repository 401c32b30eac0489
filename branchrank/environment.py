"""Environment variables that other libraries read while they are imported or opened.

BranchRank leaves ``os.environ`` as it found it. Where a library takes an option from the environment alone,
the variable is set for the one call that reads it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def temporary_environment(**variables: str) -> Iterator[None]:
    """Set variables for the length of a ``with`` block, then restore what was there before.

    One thread at a time is inside. Threads that read the environment meanwhile see the variables, so keep the
    block to the call that needs them.
    """
    with _ONE_AT_A_TIME:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
