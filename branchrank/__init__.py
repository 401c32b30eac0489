"""BranchRank: benchmark retrieval pipelines over documentation."""

import os

# ONNX Runtime 1.31 and later report usage to its maker, and keep a device id and a database in the user's
# cache, unless this is set before its first import. Connections go only where a setting says.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"

# One query is one pass over the vectors, bound by memory: a second BLAS thread mostly spins, and the sums
# would depend on the number of threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
