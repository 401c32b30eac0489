"""Run an encoder that consists of an ONNX graph and the weights of a checkpoint.

1. The graph is written in ONNX's textual syntax with standard operators, and is only a few kilobytes long.
   The graph refers to the memory-mapped weights of the checkpoint, so no converted model is written to disk.
2. Each text is encoded in a separate forward pass, without padding or an attention mask. The vector of a text
   therefore does not depend on the other texts or on the number of threads.
3. With the precisions ``float32`` and ``int8``, the encoder runs in ONNX Runtime. With ``bfloat16``, the
   encoder runs in OpenVINO, because ONNX Runtime can't multiply bfloat16 matrices on the CPU.

Only ONNX Runtime's basic graph optimizations are enabled. On the CPU, the fused operators were not faster,
and the fused skip-layer-norm operator was about 10% slower.
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

from branchrank.io.environment import temporary_environment
from branchrank.records import Record
from branchrank.settings.parts import Precision

#: The names of the input and the two outputs of a graph.
IDS, POOLED, ROWS = "ids", "pooled", "rows"


class Graph(NamedTuple):
    """The graph of an encoder in ONNX's textual syntax, and the constants of the graph.

    - The input ``ids`` is an int64 array of token ids, of shape ``(number of tokens,)``.
    - The output ``pooled`` is the unscaled vector of the text, a float32 array of shape ``(size,)``.
    - The output ``rows`` is the last layer's output, a float32 array of shape ``(number of tokens, size)``.

    The graph refers to each weight by the weight's name in the checkpoint, with ``_`` instead of ``.``.
    """

    text: str
    constants: Mapping[str, NDArray[Any]]


class Session(Protocol):
    """An encoder that ONNX Runtime or OpenVINO has loaded. Several threads can share one session."""

    def run(self, outputs: list[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """Compute the named outputs from ``inputs``, and return them in the order of ``outputs``."""


class _Tensor(Record, frozen=True, kw_only=True):
    """One entry of a safetensors header. Offsets are in bytes, relative to the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def map_weights(content: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """Return the float32 tensors of a safetensors file as views of ``content``, the bytes of the file.

    The header of the safetensors file is not checked.
    """
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
    """An encoder that runs ``graph`` on the CPU with one thread per call.

    ``threads`` is the number of calls that the caller makes at the same time.

    Raises :class:`~branchrank.errors.MissingDependencyError` if ``precision`` needs a package that is not
    installed, and :class:`~branchrank.errors.ModelError` if the CPU does not support ``precision``.
    """

    def __init__(
        self,
        graph: Graph,
        weights: Mapping[str, NDArray[np.float32]],
        *,
        precision: Precision = "float32",
        threads: int = 1,
    ) -> None:
        used = set(re.findall(r"\w+", graph.text))  # The graph does not use all weights of the checkpoint.
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
        """Return the unscaled vector of the text with the token ids ``ids``.

        The vector is a float32 array of shape ``(size,)``.
        """
        return self._session.run([POOLED], {IDS: ids})[0]

    def pooled_and_rows(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the same vector as :meth:`pooled`, and the last layer's output for each token.

        The last layer's output is a float32 array of shape ``(len(ids), size)``.
        """
        pooled, rows = self._session.run([POOLED, ROWS], {IDS: ids})
        return pooled, rows


class _Onnxruntime:
    """An ONNX Runtime session. ``external`` contains all weights that are not stored in ``model``."""

    def __init__(self, model: Any, external: Mapping[str, NDArray[np.float32]]) -> None:
        onnxruntime = _onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # ONNX Runtime uses the weights without copying them, so this object keeps the arrays in memory.
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
    """Import ONNX Runtime with telemetry turned off, unless the user has set ``ORT_DISABLE_TELEMETRY``."""
    # If ORT_DISABLE_TELEMETRY is not set during the import, ONNX Runtime 1.31 and later reports usage data to
    # the vendor, and stores a device id and a database in the user's cache.
    if "onnxruntime" not in sys.modules and "ORT_DISABLE_TELEMETRY" not in os.environ:
        with temporary_environment(ORT_DISABLE_TELEMETRY="1"):
            import onnxruntime
    else:
        import onnxruntime
    return onnxruntime


def _model(graph: Graph, weights: Mapping[str, NDArray[np.float32]], *, inline: bool) -> Any:
    """Return the graph as an ONNX model, which contains the weights only if ``inline`` is true."""
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
