"""Run a task on shards in this process, in several processes or on a Ray cluster."""

from branchrank.execution.in_process import InProcess
from branchrank.execution.opening import check_engine, is_distributed, open_executor
from branchrank.execution.protocol import Executor, Task
from branchrank.execution.threads import limit_torch, thread_count

__all__ = [
    "Executor",
    "InProcess",
    "Task",
    "check_engine",
    "is_distributed",
    "limit_torch",
    "open_executor",
    "thread_count",
]
