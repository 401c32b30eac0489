"""Embed texts with an encoder that consists of an ONNX graph and the weights of a checkpoint.

1. The graph is written in ONNX's textual syntax with standard operators, and is only a few kilobytes long.
   The graph refers to the memory-mapped weights of the checkpoint, so no converted model is written to disk.
2. Each text is tokenized, truncated and encoded separately, without padding or an attention mask. The vector
   of a text therefore does not depend on the other texts or on the number of threads. Several threads encode
   texts at the same time, starting with the longest texts.
3. With the precisions ``float32`` and ``int8``, the encoder runs in ONNX Runtime. With ``bfloat16``, the
   encoder runs in OpenVINO, because ONNX Runtime can't multiply bfloat16 matrices on the CPU.
4. With ``int8``, the weights of each output channel of a linear layer are divided by a scale (their largest
   absolute value, divided by 63) and rounded. The inputs of a layer are quantized while the model runs, with
   one scale for the whole text. Embeddings, attention scores, normalization layers and activation functions
   stay float32. For all-MiniLM-L6-v2, the mean cosine similarity between the quantized and the float32 vector
   of a text is 0.99 (see ``docs/embedders.md``).

Only ONNX Runtime's basic graph optimizations are enabled. On the CPU, the fused operators were not faster,
and the fused skip-layer-norm operator was about 10% slower.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from branchrank.core.errors import ModelError, Remedies, Remedy
from branchrank.core.io import imported, temporary_environment
from branchrank.core.io.printable import encodable
from branchrank.core.records import Record
from branchrank.index.embedders.protocol import (
    DocumentVectors,
    EmbedderIdentity,
    QueryVectors,
    Vectors,
    unit_row,
    unit_rows,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Made = TypeVar("Made")
#: Tensors by name.
Weights = Mapping[str, NDArray[np.float32]]

_DOMAIN = "com.microsoft"
#: The largest quantized weight. Processors without VNNI add two products of 8-bit integers in 16 bits, and
#: larger weights could overflow it: 2 * 255 * 64 < 2**15.
_LARGEST_WEIGHT = 63
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


def open_session(graph: Graph, weights: Weights, precision: str, threads: int) -> _Onnxruntime | _OpenVino:
    """Load ``graph`` on the CPU, for ``threads`` calls at the same time that use one thread each.

    Raises :class:`~branchrank.core.errors.MissingDependencyError` if ``precision`` needs a package that is
    not installed, and :class:`~branchrank.core.errors.ModelError` if the CPU does not support ``precision``.
    """
    used = set(re.findall(r"\w+", graph.text))  # The graph does not use all weights of the checkpoint.
    renamed = {name.replace(".", "_"): array for name, array in weights.items()}
    named = {name: array for name, array in renamed.items() if name in used}
    if precision == "bfloat16":
        return _OpenVino(_model(graph, named, inline=True), threads)
    if precision == "int8":
        return _Onnxruntime(_quantized(_model(graph, named, inline=True)), {})
    return _Onnxruntime(_model(graph, named, inline=False), named)


class _Onnxruntime:
    """An ONNX Runtime session. ``external`` contains all weights that are not stored in ``model``."""

    def __init__(self, model: Any, external: Weights) -> None:
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
        """Compute the named outputs from ``inputs``, and return them in the order of ``outputs``."""
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


def _model(graph: Graph, weights: Weights, *, inline: bool) -> Any:
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


class GraphEmbedder:
    """An embedder that tokenizes and encodes texts on ``threads`` threads.

    ``identity.dtype`` is the precision of the encoder.
    """

    def __init__(
        self, identity: EmbedderIdentity, tokenizer: Tokenizer, graph: Graph, weights: Weights, threads: int
    ) -> None:
        self.identity = identity
        self._tokenizer = tokenizer
        self._session = open_session(graph, weights, identity.dtype, threads)
        self._threads = threads

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, one row per text."""
        rows = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        for number, row in self._each(self._pooled, self._documents(texts)):
            rows[number] = row
        return unit_rows(rows, origin=self.identity.model)

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, scaled to unit length."""
        return unit_row(self._pooled(self.identity.query_prefix + text), origin=self.identity.model)

    def embed_documents_and_tokens(self, texts: Sequence[str]) -> DocumentVectors:
        """Return a unit vector for each text and for each of its tokens.

        The tokens include special tokens and the tokens of the prefix.
        """
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        tokens: list[Vectors] = [np.empty(0, dtype=np.float32)] * len(texts)
        for number, (row, rows) in self._each(self._pooled_and_rows, self._documents(texts)):
            vectors[number], tokens[number] = row, unit_rows(rows, origin=self.identity.model)
        return DocumentVectors(unit_rows(vectors, origin=self.identity.model), tokens)

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        """Return the unit vectors of a query and of its tokens, except special tokens and the prefix."""
        prefix, origin = self.identity.query_prefix, self.identity.model
        ids = self._ids(prefix + text)
        row, rows = self._session.run([POOLED, ROWS], {IDS: ids})
        decoder = self._tokenizer.get_added_tokens_decoder()
        own = np.flatnonzero(~np.isin(ids, [number for number, token in decoder.items() if token.special]))
        before = len(self._tokenizer.encode(prefix, add_special_tokens=False).ids)
        return QueryVectors(unit_row(row, origin=origin), unit_rows(rows, origin=origin)[own[before:]])

    def _documents(self, texts: Sequence[str]) -> list[str]:
        return [self.identity.document_prefix + text for text in texts]

    def _each(self, work: Callable[[str], Made], texts: Sequence[str]) -> Iterator[tuple[int, Made]]:
        """Yield each text's position and its result from ``work``, starting with the longest text."""
        longest_first = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        with ThreadPoolExecutor(self._threads, thread_name_prefix="embed") as pool:
            results = pool.map(lambda number: work(texts[number]), longest_first)
            yield from zip(longest_first, results, strict=True)

    def _pooled(self, text: str) -> Vectors:
        return self._session.run([POOLED], {IDS: self._ids(text)})[0]

    def _pooled_and_rows(self, text: str) -> list[Vectors]:
        return self._session.run([POOLED, ROWS], {IDS: self._ids(text)})

    def _ids(self, text: str) -> NDArray[np.int64]:
        return np.array(self._tokenizer.encode(encodable(text)).ids, dtype=np.int64)


def layers(template: str, count: int, name: str, epsilon: float) -> str:
    """Return the text of ``count`` layers, of which the last one computes the rows."""
    return "".join(
        template.format(n=n, next=ROWS if n == count - 1 else f"x{n + 1}", w=f"{name}_{n}", epsilon=epsilon)
        for n in range(count)
    )


def read_tokenizer(folder: Path, max_tokens: int, *, model: str, remedy: Remedies) -> Tokenizer:
    """Load the tokenizer in ``folder``, and make it truncate texts to ``max_tokens`` tokens.

    ``model`` is the model's name in error messages. Raises :class:`ModelError` if the tokenizer can't be
    read.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The tokenizers library raises plain ``Exception``.
        raise ModelError(f"the tokenizer {path} of {model} can't be read: {error}", remedy=remedy) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _quantized(model: Any) -> Any:
    """Replace the weights of every ``Gemm`` node in ``model`` with 8-bit integers, and return ``model``.

    The weights must be stored in the model and have the shape ``(outputs, inputs)``. All nodes except
    ``Gemm`` nodes are unchanged.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    contained = {tensor.name: tensor for tensor in graph.initializer}
    nodes, replaced = [], set()
    for node in graph.node:
        if node.op_type != "Gemm" or node.input[1] not in contained:
            nodes.append(node)
            continue
        inputs, name, *bias = node.input
        replaced.add(name)
        weight = numpy_helper.to_array(contained[name]).T
        scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / _LARGEST_WEIGHT
        rounded = np.round(weight / scale).astype(np.int8)
        parts = {"int8": rounded, "scale": scale.astype(np.float32), "zero": np.zeros_like(rounded[0])}
        graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(array), f"{name}_{part}")
            for part, array in parts.items()
        )
        names = [inputs, *(f"{name}_{part}" for part in parts), *bias]
        nodes.append(helper.make_node("DynamicQuantizeMatMul", names, node.output, domain=_DOMAIN))
    kept = [tensor for tensor in graph.initializer if tensor.name not in replaced]
    for field, values in ((graph.node, nodes), (graph.initializer, kept)):
        del field[:]
        field.extend(values)
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return model


class _OpenVino:
    """An ONNX model compiled for the CPU. At most ``threads`` calls run at a time, with one thread each.

    Raises :class:`MissingDependencyError` if OpenVINO is not installed, and :class:`ModelError` if the CPU
    has no bfloat16 instructions.
    """

    def __init__(self, model: Any, threads: int) -> None:
        purpose = "--embedder-precision bfloat16"
        openvino = imported("openvino", "openvino", purpose=purpose, extra="openvino")
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
                f"this CPU has no bfloat16 instructions: OpenVINO uses {precision}",
                remedy=Remedy("use {}", "--embedder-precision", "float32"),
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
