"""Run an encoder that is written as an ONNX graph over a checkpoint's own weights.

1. A graph is written in ONNX's textual syntax with standard operators. It takes a few kilobytes and refers to
   the memory-mapped weights: nothing is exported or written to a cache.
2. Each text gets its own forward pass without padding or mask, so a vector depends only on its text, not on
   the batch, the order or the number of threads.
3. ``float32`` and ``int8`` run in ONNX Runtime, ``bfloat16`` in OpenVINO: ONNX Runtime has no bfloat16
   products for the CPU.

Only ONNX Runtime's basic optimisations are enabled: its fused operators were not faster on the CPU, and using
its fused skip-layer-norm explicitly was about 10% slower.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.environment import temporary_environment
from branchrank.records import Record
from branchrank.settings.parts import Precision

#: The names of a graph's input and outputs.
IDS, POOLED, ROWS = "ids", "pooled", "rows"


class Graph(NamedTuple):
    """An encoder in ONNX's textual syntax, with its constants and the names of its weights.

    Its input is ``ids``, int64 ``(tokens,)``. Its outputs are ``pooled``, float32 ``(size,)``, not
    normalised, and ``rows``, the last layer, float32 ``(tokens, size)``. A weight's name is that of the
    checkpoint with ``_`` for ``.``.
    """

    text: str
    constants: Mapping[str, NDArray[Any]]


class Session(Protocol):
    """Runs a model; several threads can call it at the same time."""

    def run(self, outputs: list[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The named outputs, in the order of the names."""


class _Tensor(Record, frozen=True, kw_only=True):
    """One entry of a safetensors header; offsets are relative to the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def map_weights(content: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """The float32 tensors of a safetensors file, as views of its bytes ``content`` (already verified)."""
    header_end = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = msgspec.json.decode(content[8:header_end].tobytes(), type=dict[str, msgspec.Raw])
    header.pop("__metadata__", None)
    tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in header.items()}
    data = content[header_end:]
    return {
        name: data[tensor.data_offsets[0] : tensor.data_offsets[1]].view("<f4").reshape(tensor.shape)
        for name, tensor in tensors.items()
        if tensor.dtype == "F32"
    }


class OnnxEncoder:
    """Runs ``graph`` on the CPU with one thread per call; at most ``threads`` threads call it at a time.

    Raises :class:`~branchrank.errors.MissingDependencyError` if ``precision`` needs a package that is not
    installed, and :class:`~branchrank.errors.ModelError` if this CPU lacks its instructions.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, NDArray[np.float32]],
        *,
        precision: Precision = "float32",
        threads: int = 1,
    ) -> None:
        used = set(re.findall(r"\w+", graph.text))  # not the weights of heads
        renamed = {name.replace(".", "_"): array for name, array in weights.items()}
        named = {name: array for name, array in renamed.items() if name in used}
        self._session: Session
        if precision == "bfloat16":
            from branchrank.embedders.openvino_session import OpenVinoSession

            self._session = OpenVinoSession(_model(graph, named, inline=True), threads)
        elif precision == "int8":
            from branchrank.embedders.int8_graph import quantized

            self._session = _Onnxruntime(quantized(_model(graph, named, inline=True)), {})
        else:
            self._session = _Onnxruntime(_model(graph, named, inline=False), named)

    def pooled(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vector of one text's token ids: float32 ``(size,)``, not normalised."""
        return self._session.run([POOLED], {IDS: ids})[0]

    def pooled_and_rows(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The same vector and the last layer's rows, float32 ``(len(ids), size)``, from one forward pass."""
        pooled, rows = self._session.run([POOLED, ROWS], {IDS: ids})
        return pooled, rows


class _Onnxruntime:
    """A session of ONNX Runtime. ``external`` are the weights that the model names but does not contain."""

    def __init__(self, model: Any, external: Mapping[str, NDArray[np.float32]]) -> None:
        onnxruntime = _onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # Keep the values as long as the session, which uses the memory of their arrays.
        self._values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in external.values()]
        self._arrays = external
        if external:
            options.add_external_initializers(list(external), self._values)
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, outputs: list[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        found: list[NDArray[np.float32]] = self._session.run(outputs, dict(inputs))
        return found


def _onnxruntime() -> Any:
    """Import ONNX Runtime with its telemetry turned off.

    Unless ``ORT_DISABLE_TELEMETRY`` is set, version 1.31 and later report usage to the vendor and store a
    device id and a database in the user's cache. The variable is read once, on import. If the program has
    already imported ONNX Runtime, or has set the variable, its choice is kept.
    """
    if "onnxruntime" not in sys.modules and "ORT_DISABLE_TELEMETRY" not in os.environ:
        with temporary_environment(ORT_DISABLE_TELEMETRY="1"):
            import onnxruntime
    else:
        import onnxruntime
    return onnxruntime


def _model(graph: Graph, weights: Mapping[str, NDArray[np.float32]], *, inline: bool) -> Any:
    """The graph as a model. It contains ``weights``, or (not ``inline``) refers to them by name."""
    import onnx

    model = onnx.parser.parse_model(graph.text)
    initializers = model.graph.initializer
    contained = {**graph.constants, **(weights if inline else {})}
    initializers.extend(onnx.numpy_helper.from_array(array, name) for name, array in contained.items())
    for name, array in {} if inline else weights.items():
        tensor = initializers.add(
            name=name,
            dims=array.shape,
            data_type=onnx.TensorProto.FLOAT,
            data_location=onnx.TensorProto.EXTERNAL,
        )
        for key, value in (("location", "mapped"), ("offset", "0"), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
    return model
