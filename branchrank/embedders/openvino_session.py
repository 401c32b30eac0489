"""Run an ONNX model in bfloat16 with OpenVINO, on CPUs with AVX512-BF16 or AMX instructions."""

from __future__ import annotations

from collections.abc import Mapping
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchrank.errors import MissingDependencyError, ModelError

_REMEDY = "use --embedder-precision float32"


class OpenVinoSession:
    """An ONNX model compiled for the CPU. At most ``threads`` calls run at a time, with one thread each.

    Raises :class:`MissingDependencyError` if OpenVINO is not installed, and :class:`ModelError` if the CPU
    has no bfloat16 instructions.
    """

    def __init__(self, model: Any, threads: int) -> None:
        try:
            import openvino
        except ImportError as error:
            purpose = "--embedder-precision bfloat16"
            raise MissingDependencyError("openvino", purpose=purpose, extra="openvino") from error
        hints = {
            "INFERENCE_PRECISION_HINT": "bf16",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
        }
        core = openvino.Core()
        self._compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", hints)
        precision = self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        if precision != "bf16":
            raise ModelError(
                f"this CPU has no bfloat16 instructions: OpenVINO uses {precision}", remedy=_REMEDY
            )
        self._own = local()

    def run(self, outputs: list[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Compute the named outputs from ``inputs``, and return them in the order of ``outputs``.

        Each thread uses its own OpenVINO inference request.
        """
        request = getattr(self._own, "request", None)
        if request is None:
            request = self._own.request = self._compiled.create_infer_request()
        found = request.infer(dict(inputs))
        return [np.array(found[name], dtype=np.float32) for name in outputs]
