"""Run CodeRankEmbed and other published NomicBert models in ONNX Runtime, without PyTorch.

1. A supported model is a NomicBert model in the published format (:mod:`branchrank.embedders.nomic_bert`)
   with float32 weights in one file. The sentence-transformers modules of a supported model are a transformer,
   a pooling module (first token or mean) and, optionally, a normalization module. All other models are run by
   :mod:`branchrank.embedders.sentence_transformers`.
2. The vectors differ from those of sentence-transformers only by rounding errors (1e-6 in tests). With
   float32 precision, :class:`NomicEmbedder` and ``SentenceTransformersEmbedder`` have the same identity, so
   an index built with one embedder can be searched with the other embedder.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from branchrank.embedders.graph_embedder import GraphEmbedder, read_tokenizer
from branchrank.embedders.nomic_bert import native_config
from branchrank.embedders.nomic_graph import Pooling, nomic_graph
from branchrank.embedders.onnx_encoder import OnnxEncoder, map_weights
from branchrank.embedders.protocol import EmbedderIdentity
from branchrank.embedders.sentence_transformers import (
    REMEDY,
    folder_revision,
    modules_of,
    prefixes_of,
    read_json,
    weights_digest,
)
from branchrank.errors import ModelError
from branchrank.execution.threads import thread_count
from branchrank.io.files import NOT_JSON
from branchrank.records import Record
from branchrank.settings.parts import Precision

_WEIGHTS = "model.safetensors"
_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])


class _Pooling(Record, frozen=True, kw_only=True):
    """The fields of ``1_Pooling/config.json``."""

    pooling_mode_cls_token: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_max_tokens: bool = False
    pooling_mode_mean_sqrt_len_tokens: bool = False
    pooling_mode_weightedmean_tokens: bool = False
    pooling_mode_lasttoken: bool = False
    include_prompt: bool = True


class _Prompts(Record, frozen=True, kw_only=True):
    """The fields of ``config_sentence_transformers.json``."""

    prompts: dict[str, str | None] = msgspec.field(default_factory=dict)


class _Reading(Record, frozen=True, kw_only=True):
    """The fields of ``sentence_bert_config.json``."""

    max_seq_length: int | None = None
    do_lower_case: bool = False


class NomicEmbedder(GraphEmbedder):
    """An embedder that runs the NomicBert model ``model`` from the files in ``folder``.

    :func:`is_nomic` must return true for ``folder``. Raises :class:`ModelError` if the files can't be read.
    """

    def __init__(
        self,
        folder: Path,
        model: str,
        revision: str = "",
        *,
        threads: int | None = None,
        precision: Precision = "float32",
    ) -> None:
        pooling, max_tokens = _pooling(folder), _max_tokens(folder)
        assert pooling is not None
        assert max_tokens is not None
        config = native_config(folder)
        try:
            weights = map_weights(np.memmap(folder / _WEIGHTS, mode="r", dtype=np.uint8))
        except (OSError, ValueError, *NOT_JSON) as error:
            raise ModelError(
                f"the weights in {folder / _WEIGHTS} can't be read: {error}", remedy=REMEDY
            ) from error
        threads = threads or thread_count()
        own = read_json(folder / "config_sentence_transformers.json", _Prompts, default=_Prompts())
        prefixes = prefixes_of(own.prompts, model)
        identity = EmbedderIdentity(
            name="sentence-transformers",
            model=model,
            revision=folder_revision(folder, revision),
            dtype=precision,
            dimension=config["hidden_size"],
            max_tokens=max_tokens,
            query_prefix=prefixes.query,
            document_prefix=prefixes.document,
            weights_digest=weights_digest(folder),
        )
        tokenizer = read_tokenizer(folder, max_tokens, model=model, remedy=REMEDY)
        graph = nomic_graph(config, pooling, max_tokens)
        super().__init__(
            identity, tokenizer, OnnxEncoder(graph, weights, precision=precision, threads=threads), threads
        )


def is_nomic(folder: Path) -> bool:
    """Return whether :class:`NomicEmbedder` can run the model in ``folder``.

    Raises :class:`ModelError` for a published NomicBert model that has unsupported settings or weights.
    """
    if not native_config(folder):
        return False
    kinds = [module.type for module in modules_of(folder)]
    names = [kind.rpartition(".")[2] for kind in kinds]
    return (
        names in _MODULES
        and all(kind.startswith("sentence_transformers.") for kind in kinds)
        and modules_of(folder)[0].path == ""
        and [path.name for path in folder.glob("*.safetensors")] == [_WEIGHTS]
        and (folder / "tokenizer.json").is_file()
        and _is_float32(folder / _WEIGHTS)
        and _pooling(folder) is not None
        and _max_tokens(folder) is not None
    )


def _is_float32(path: Path) -> bool:
    from safetensors import safe_open

    with safe_open(path, framework="np") as weights:
        return all(weights.get_slice(name).get_dtype() == "F32" for name in weights.keys())  # noqa: SIM118


def _pooling(folder: Path) -> Pooling | None:
    """Return the pooling method in a model's second module, or ``None`` if it is not supported."""
    path = folder / modules_of(folder)[1].path / "config.json"
    found = read_json(path, _Pooling, default=_Pooling())
    first, mean = _Pooling(pooling_mode_cls_token=True), _Pooling(pooling_mode_mean_tokens=True)
    return "cls" if found == first else "mean" if found == mean else None


def _max_tokens(folder: Path) -> int | None:
    """Return the maximum number of tokens in a text, or ``None`` if the settings are not supported."""
    reading = read_json(folder / "sentence_bert_config.json", _Reading, default=_Reading())
    if reading.do_lower_case or reading.max_seq_length is None or reading.max_seq_length < 3:
        return None
    return int(reading.max_seq_length)
