"""Build an ONNX graph of a NomicBert encoder, for :mod:`branchrank.embedders.onnx_encoder`.

1. Each transformer block consists of attention, layer normalization, a gated MLP and a second layer
   normalization (post-norm). The attention and the MLP each have a residual connection. Linear layers have no
   bias.
2. The position embeddings are rotary (RoFormer, 2021), without interleaving. Coordinate ``i`` of the first
   half of an attention head and coordinate ``i`` of its second half are rotated by an angle that grows with
   the position of the token. Queries and keys are rotated in one operation.
3. The tables of cosines and sines are multiplied by ``head ** -0.25``, where ``head`` is the size of an
   attention head. The product of a query and a key is therefore already scaled by ``head ** -0.5``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from branchrank.embedders.onnx_encoder import Graph

Pooling = Literal["cls", "mean"]

_HEAD = """
<ir_version: 9, opset_import: ["": 20]>
nomic_bert (int64[tokens] ids) => (float[size] pooled, float[tokens, size] rows) {{
  length = Shape(ids)
  word = Gather(embeddings_word_embeddings_weight, ids)
  kind = Slice(embeddings_token_type_embeddings_weight, zero, one)
  summed = Add(word, kind)
  x0 = LayerNormalization<epsilon = {epsilon}>(summed, emb_ln_weight, emb_ln_bias)
  cos = Slice(cosines, zero, length)
  sin = Slice(sines, zero, length)
"""

_LAYER = """
  qkv{n} = Gemm<transB = 1>(x{n}, {w}_attn_Wqkv_weight)
  heads{n} = Reshape(qkv{n}, split)
  qk{n}, v{n} = Split<axis = 1>(heads{n}, parts)
  first{n}, second{n} = Split<axis = 2, num_outputs = 2>(qk{n})
  first_cos{n} = Mul(first{n}, cos)
  second_sin{n} = Mul(second{n}, sin)
  second_cos{n} = Mul(second{n}, cos)
  first_sin{n} = Mul(first{n}, sin)
  turned_first{n} = Sub(first_cos{n}, second_sin{n})
  turned_second{n} = Add(second_cos{n}, first_sin{n})
  turned{n} = Concat<axis = 2>(turned_first{n}, turned_second{n})
  q{n}, k{n} = Split<axis = 1, num_outputs = 2>(turned{n})
  qh{n} = Transpose<perm = [1, 0, 2]>(q{n})
  kh{n} = Transpose<perm = [1, 2, 0]>(k{n})
  vh{n} = Transpose<perm = [1, 0, 2]>(v{n})
  product{n} = MatMul(qh{n}, kh{n})
  attention{n} = Softmax<axis = -1>(product{n})
  mixed{n} = MatMul(attention{n}, vh{n})
  rows{n} = Transpose<perm = [1, 0, 2]>(mixed{n})
  joined{n} = Reshape(rows{n}, join)
  o{n} = Gemm<transB = 1>(joined{n}, {w}_attn_out_proj_weight)
  os{n} = Add(o{n}, x{n})
  y{n} = LayerNormalization<epsilon = {epsilon}>(os{n}, {w}_norm1_weight, {w}_norm1_bias)
  up{n} = Gemm<transB = 1>(y{n}, {w}_mlp_fc11_weight)
  gate{n} = Gemm<transB = 1>(y{n}, {w}_mlp_fc12_weight){gate}
  gated{n} = Mul(up{n}, active{n})
  narrow{n} = Gemm<transB = 1>(gated{n}, {w}_mlp_fc2_weight)
  ns{n} = Add(narrow{n}, y{n})
  {next} = LayerNormalization<epsilon = {epsilon}>(ns{n}, {w}_norm2_weight, {w}_norm2_bias)
"""

#: The ONNX operations that implement each gate function, by the function's name in transformers.
_GATES = {
    "silu": """
  share{n} = Sigmoid(gate{n})
  active{n} = Mul(gate{n}, share{n})""",
    "gelu": """
  active{n} = Gelu(gate{n})""",
    "sigmoid": """
  active{n} = Sigmoid(gate{n})""",
}

_POOLING = {
    "cls": "  pooled = Gather(rows, first)",
    "mean": "  pooled = ReduceMean<keepdims = 0>(rows, zero)",
}


def nomic_graph(config: Mapping[str, Any], pooling: Pooling, max_tokens: int) -> Graph:
    """Return the ONNX graph of a NomicBert encoder for texts of at most ``max_tokens`` tokens.

    ``config`` is the configuration from :func:`branchrank.embedders.nomic_bert.native_config`.
    """
    size, heads, last = config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"] - 1
    head = size // heads
    epsilon = config["layer_norm_eps"]
    layers = (
        _LAYER.format(
            n=n,
            next="rows" if n == last else f"x{n + 1}",
            w=f"encoder_layers_{n}",
            epsilon=epsilon,
            gate=_GATES[config["hidden_act"]].format(n=n),
        )
        for n in range(last + 1)
    )
    frequencies = config["rope_parameters"]["rope_theta"] ** -(np.arange(0, head, 2) / head)
    angles = np.outer(np.arange(max_tokens), frequencies)[:, np.newaxis]
    scale = head**-0.25  # Queries and keys are both scaled, so their products are scaled by ``head ** -0.5``.
    return Graph(
        _HEAD.format(epsilon=epsilon) + "".join(layers) + _POOLING[pooling] + "\n}",
        {
            "zero": np.array([0]),
            "one": np.array([1]),
            "first": np.array(0),
            "split": np.array([-1, 3 * heads, head]),
            "parts": np.array([2 * heads, heads]),
            "join": np.array([-1, size]),
            "cosines": (scale * np.cos(angles)).astype(np.float32),
            "sines": (scale * np.sin(angles)).astype(np.float32),
        },
    )
