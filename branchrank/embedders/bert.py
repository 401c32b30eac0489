"""Build an ONNX graph of a BERT encoder with mean pooling, for :mod:`branchrank.embedders.onnx_encoder`.

With mean pooling, the vector of a text is the mean of its token vectors, including those of ``[CLS]`` and
``[SEP]``. The model all-MiniLM-L6-v2 uses mean pooling.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from branchrank.embedders.onnx_encoder import Graph
from branchrank.records import Record

_HEAD = """
<ir_version: 9, opset_import: ["": 20]>
bert (int64[tokens] ids) => (float[size] pooled, float[tokens, size] rows) {{
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
  {next} = LayerNormalization<epsilon = {epsilon}>(
    ns{n}, {w}_output_LayerNorm_weight, {w}_output_LayerNorm_bias)
"""

_TAIL = """
  pooled = ReduceMean<keepdims = 0>(rows, zero)
}
"""


class BertShape(Record, frozen=True, kw_only=True):
    """The fields of a BERT checkpoint's ``config.json`` that the ONNX graph depends on."""

    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    layer_norm_eps: float


def read_shape(config: Path) -> BertShape:
    """Read ``config``. Raises ``msgspec.ValidationError`` if the file does not describe a BERT model."""
    return msgspec.json.decode(config.read_bytes(), type=BertShape)


def bert_graph(shape: BertShape) -> Graph:
    """Return the ONNX graph of a BERT encoder. ``shape.num_hidden_layers`` must be at least 1."""
    last = shape.num_hidden_layers - 1
    layers = (
        _LAYER.format(
            n=n,
            next="rows" if n == last else f"x{n + 1}",
            w=f"encoder_layer_{n}",
            epsilon=shape.layer_norm_eps,
        )
        for n in range(last + 1)
    )
    head = shape.hidden_size // shape.num_attention_heads
    return Graph(
        _HEAD.format(epsilon=shape.layer_norm_eps) + "".join(layers) + _TAIL,
        {
            "zero": np.array([0]),
            "one": np.array([1]),
            "split": np.array([-1, shape.num_attention_heads, head]),
            "join": np.array([-1, shape.hidden_size]),
            "scale": np.array(head**-0.5, dtype=np.float32),
        },
    )
