"""A BERT encoder with mean pooling as an ONNX graph over the checkpoint's own weights.

1. The graph is written in ONNX's textual syntax with standard operators. It takes a few kilobytes and refers
   to the memory-mapped weights: nothing is exported, converted or copied to a cache.
2. Each text gets its own forward pass without padding or mask, so a vector depends only on its text, not on
   the batch, the order or the number of threads.
3. Mean pooling is the mean over all tokens, including ``[CLS]`` and ``[SEP]``, as in the original model.

Only ONNX Runtime's basic optimisations are enabled: its fused operators were not faster on the CPU, and using
its fused skip-layer-norm explicitly was about 10% slower.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.environment import temporary_environment
from branchrank.records import Record

_HEAD = """
<ir_version: 9, opset_import: ["": 20]>
bert (int64[tokens] ids) => (float[size] mean, float[tokens, size] x{last}) {{
  length = Shape(ids)
  word = Gather(embeddings_word_embeddings_weight, ids)
  position = Slice(embeddings_position_embeddings_weight, zero, length)
  kind = Slice(embeddings_token_type_embeddings_weight, zero, one)
  located = Add(word, position)
  summed = Add(located, kind)
  x0 = LayerNormalization<epsilon = {epsilon}>(summed, embeddings_LayerNorm_weight, embeddings_LayerNorm_bias)
"""

_LAYER = """
  q{n} = Gemm<transB = 1>(x{n}, {w}_attention_self_query_weight, {w}_attention_self_query_bias)
  k{n} = Gemm<transB = 1>(x{n}, {w}_attention_self_key_weight, {w}_attention_self_key_bias)
  v{n} = Gemm<transB = 1>(x{n}, {w}_attention_self_value_weight, {w}_attention_self_value_bias)
  qs{n} = Reshape(q{n}, split)
  ks{n} = Reshape(k{n}, split)
  vs{n} = Reshape(v{n}, split)
  qh{n} = Transpose<perm = [1, 0, 2]>(qs{n})
  kh{n} = Transpose<perm = [1, 2, 0]>(ks{n})
  vh{n} = Transpose<perm = [1, 0, 2]>(vs{n})
  product{n} = MatMul(qh{n}, kh{n})
  scaled{n} = Mul(product{n}, scale)
  attention{n} = Softmax<axis = -1>(scaled{n})
  heads{n} = MatMul(attention{n}, vh{n})
  rows{n} = Transpose<perm = [1, 0, 2]>(heads{n})
  joined{n} = Reshape(rows{n}, join)
  o{n} = Gemm<transB = 1>(joined{n}, {w}_attention_output_dense_weight, {w}_attention_output_dense_bias)
  os{n} = Add(o{n}, x{n})
  y{n} = LayerNormalization<epsilon = {epsilon}>(
    os{n}, {w}_attention_output_LayerNorm_weight, {w}_attention_output_LayerNorm_bias)
  wide{n} = Gemm<transB = 1>(y{n}, {w}_intermediate_dense_weight, {w}_intermediate_dense_bias)
  active{n} = Gelu(wide{n})
  narrow{n} = Gemm<transB = 1>(active{n}, {w}_output_dense_weight, {w}_output_dense_bias)
  ns{n} = Add(narrow{n}, y{n})
  x{next} = LayerNormalization<epsilon = {epsilon}>(
    ns{n}, {w}_output_LayerNorm_weight, {w}_output_LayerNorm_bias)
"""

_TAIL = """
  mean = ReduceMean<keepdims = 0>(x{n}, zero)
}}
"""


class BertShape(Record, frozen=True, kw_only=True):
    """The fields of a BERT checkpoint's ``config.json`` that the graph depends on."""

    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    layer_norm_eps: float


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


def graph_text(shape: BertShape) -> str:
    """The encoder in ONNX's textual syntax. Its input is ``ids``, int64 ``(tokens,)``.

    Its outputs are ``mean``, float32 ``(size,)``, and the last layer's rows, float32 ``(tokens, size)``.
    """
    last = shape.num_hidden_layers
    layers = (
        _LAYER.format(n=n, next=n + 1, w=f"encoder_layer_{n}", epsilon=shape.layer_norm_eps)
        for n in range(last)
    )
    head = _HEAD.format(epsilon=shape.layer_norm_eps, last=last)
    return head + "".join(layers) + _TAIL.format(n=last)


class BertEncoder:
    """Runs the graph on the CPU with one thread per call; several threads can call it at the same time."""

    def __init__(self, shape: BertShape, weights: Mapping[str, NDArray[np.float32]]) -> None:
        onnxruntime = _onnxruntime()
        head = shape.hidden_size // shape.num_attention_heads
        constants: dict[str, NDArray[Any]] = {
            "zero": np.array([0]),
            "one": np.array([1]),
            "split": np.array([-1, shape.num_attention_heads, head]),
            "join": np.array([-1, shape.hidden_size]),
            "scale": np.array(head**-0.5, dtype=np.float32),
        }
        named = {
            name.replace(".", "_"): array for name, array in weights.items() if not name.startswith("pooler.")
        }
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        # Keep the values as long as the session, which uses the memory of their arrays.
        self._values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in named.values()]
        options.add_external_initializers(list(named), self._values)
        self._weights = weights
        self._last = f"x{shape.num_hidden_layers}"
        self._session = onnxruntime.InferenceSession(
            _model(shape, constants, named), options, providers=["CPUExecutionProvider"]
        )

    def mean(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The mean of the last layer's rows for one text's token ids: float32 ``(size,)``, not normalised."""
        result: NDArray[np.float32] = self._session.run(["mean"], {"ids": ids})[0]
        return result

    def mean_and_tokens(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The same mean and the rows themselves, float32 ``(len(ids), size)``, from one forward pass."""
        mean, rows = self._session.run(["mean", self._last], {"ids": ids})
        return mean, rows


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


def _model(
    shape: BertShape, constants: Mapping[str, NDArray[Any]], weights: Mapping[str, NDArray[np.float32]]
) -> bytes:
    """The serialised graph; it refers to ``weights`` by name and does not contain them."""
    import onnx

    model = onnx.parser.parse_model(graph_text(shape))
    initializers = model.graph.initializer
    initializers.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    for name, array in weights.items():
        tensor = initializers.add(
            name=name,
            dims=array.shape,
            data_type=onnx.TensorProto.FLOAT,
            data_location=onnx.TensorProto.EXTERNAL,
        )
        for key, value in (("location", "mapped"), ("offset", "0"), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
    serialised: bytes = model.SerializeToString()
    return serialised


def read_shape(config: Path) -> BertShape:
    """Read ``config.json``. Raises ``msgspec.ValidationError`` if it does not describe a BERT model."""
    return msgspec.json.decode(config.read_bytes(), type=BertShape)
