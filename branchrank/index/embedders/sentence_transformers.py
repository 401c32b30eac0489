"""Run sentence-transformers models from a local folder or from the Hugging Face Hub.

1. The model's folder is checked before the model is loaded. Models that have only pickled weights are
   rejected. Models that need code from their folder or from the hub are also rejected. Python code shipped
   with a model is never run.
2. The model is loaded in float32 on the device that sentence-transformers chooses. If loading fails on a GPU,
   the model is loaded on the CPU.
3. The configuration of a NomicBert model in the published format is converted to the transformers library's
   format (:mod:`branchrank.index.embedders.nomic`).
4. On the CPU, texts are encoded one at a time by default, because the last digits of a vector depend on the
   other texts in a padded batch. On a GPU, texts are encoded in batches by default, because a single text
   would leave most of the GPU idle.
5. Unless the settings contain prefixes, the prompts in the model's configuration are used. For a model
   without prompts, the prefixes that its authors published are used, such as CodeRankEmbed's query prefix.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from logging import LogRecord
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec
import numpy as np

from branchrank.core.errors import MissingDependencyError, ModelError
from branchrank.core.execution import limit_torch
from branchrank.core.io import preserved_random_state, preserved_start_method
from branchrank.core.io.printable import encodable
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.records import Record
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders.hub import (
    REMEDY,
    card_languages,
    files_digest,
    folder_revision,
    model_folder,
    modules_of,
    read_json,
)
from branchrank.index.embedders.nomic import native_config
from branchrank.index.embedders.protocol import (
    DocumentVectors,
    EmbedderIdentity,
    QueryVectors,
    Vectors,
    prefixes_of,
    unit_row,
    unit_rows,
)

#: The least number of texts that are given to the model at once.
_STEP = 16
#: The batch size on a GPU.
_GPU_BATCH = 64
#: The maximum number of tokens per text for a model that does not define a maximum.
LEAST_TOKENS = 512
#: The class name of PyLate's projection layer. Loading this layer does not require PyLate.
PYLATE_DENSE = "pylate.models.Dense.Dense"
#: The GPU device files of NVIDIA's driver, AMD's driver and the Windows Subsystem for Linux.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


class _Config(Record, frozen=True, kw_only=True):
    """The fields of ``config.json`` that show whether the model needs code that is not in transformers."""

    model_type: str = ""
    auto_map: dict[str, Any] = msgspec.field(default_factory=dict)


class SentenceTransformersEmbedder:
    """An embedder that runs the model ``settings.embedder`` with the sentence-transformers package.

    Raises :class:`ModelError` if the model is not available, has only pickled weights or needs code from
    its repository.
    """

    def __init__(self, settings: IndexSettings, *, notify: Notify = no_notice) -> None:
        model, revision = settings.embedder, settings.embedding_revision
        folder = model_folder(model, revision, notify)
        check_folder(folder)
        # The fast tokenizer is not thread-safe.
        self._lock = Lock()
        self.languages = card_languages(folder)
        self._model = load_model(folder, None, notify)
        self._batch_size = 1 if self._model.device.type == "cpu" else _GPU_BATCH
        prefixes = prefixes_of(self._model.prompts, settings)
        prefix = self._model.tokenizer(prefixes.query, add_special_tokens=False)["input_ids"]
        self._prefix_tokens = len(prefix)
        self.identity = EmbedderIdentity(
            name="sentence-transformers",
            model=model,
            revision=folder_revision(folder, revision),
            dimension=self._model.encode(["dimension"], show_progress_bar=False).shape[1],
            max_tokens=min(self._model.max_seq_length or LEAST_TOKENS, 1_000_000),
            query_prefix=prefixes.query,
            document_prefix=prefixes.document,
            weights_digest=files_digest(folder, "*.safetensors"),
        )

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, one row per text."""
        rows = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        step = max(_STEP, self._batch_size)
        for start in range(0, len(texts), step):
            batch = texts[start : start + step]
            rows[start : start + len(batch)] = self._encoded("document", batch, batch_size=self._batch_size)
        return unit_rows(rows, origin=self.identity.model)

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query, scaled to unit length."""
        (row,) = self._encoded("query", [text])
        return unit_row(row, origin=self.identity.model)

    def embed_documents_and_tokens(self, texts: Sequence[str]) -> DocumentVectors:
        """Return a unit vector for each text and for each of its tokens.

        The tokens include special tokens and the tokens of the prefix.
        """
        vectors = np.empty((len(texts), self.identity.dimension), dtype=np.float32)
        tokens = []
        for number, text in enumerate(texts):
            vectors[number], rows = self._vector_and_rows(text)
            tokens.append(rows)
        return DocumentVectors(unit_rows(vectors, origin=self.identity.model), tokens)

    def _vector_and_rows(self, text: str) -> tuple[Vectors, Vectors]:
        """Return the vector of a document before scaling, and the unit vectors of its tokens."""
        (encoded,) = self._encoded("document", [text], output_value=None)
        return _whole(encoded), self._rows(encoded)

    def embed_query_and_tokens(self, text: str) -> QueryVectors:
        """Return the unit vectors of a query and of its tokens, except special tokens and the prefix."""
        (encoded,) = self._encoded("query", [text], output_value=None)
        special = np.isin(encoded["input_ids"].cpu().numpy(), self._model.tokenizer.all_special_ids)
        own = self._rows(encoded)[~special][self._prefix_tokens :]
        return QueryVectors(unit_row(_whole(encoded), origin=self.identity.model), own)

    def _encoded(self, role: Literal["document", "query"], texts: Sequence[str], **options: Any) -> Any:
        encode = self._model.encode_document if role == "document" else self._model.encode_query
        prompt = self.identity.document_prefix if role == "document" else self.identity.query_prefix
        batch = [encodable(text) for text in texts]
        with self._lock:
            return encode(batch, prompt=prompt, show_progress_bar=False, **options)

    def _rows(self, encoded: Mapping[str, Any]) -> Vectors:
        rows: Vectors = encoded["token_embeddings"].float().cpu().numpy()
        return unit_rows(rows, origin=self.identity.model)


def _whole(encoded: Mapping[str, Any]) -> Vectors:
    """Return the vector of a whole text, before scaling."""
    found: Vectors = encoded["sentence_embedding"].float().cpu().numpy()
    return found


def check_folder(folder: Path) -> None:
    """Check that the model in ``folder`` can be loaded safely.

    Raises :class:`ModelError` for a model with only pickled weights, for a model that needs its own code, and
    for a folder without a supported model.
    """
    modules = modules_of(folder)
    foreign = [
        module.type
        for module in modules
        if not module.type.startswith("sentence_transformers.") and module.type != PYLATE_DENSE
    ]
    if foreign:
        raise ModelError(
            f"the model in {folder} needs the code of {foreign[0]}, and code shipped with a model is "
            "never run",
            remedy=REMEDY,
        )
    parts = {folder, *(folder / module.path for module in modules)}
    for part in sorted(parts):
        pickled = [path for pattern in _PICKLED for path in part.glob(pattern)]
        if pickled and not any(part.glob("*.safetensors")):
            raise ModelError(
                f"{pickled[0]} is pickled, and its folder has no safetensors weights", remedy=REMEDY
            )
    configs = [path for part in sorted(parts) if (path := part / "config.json").is_file()]
    if not modules and not configs:
        raise ModelError(f"{folder} does not contain a sentence-transformers model", remedy=REMEDY)
    for path in configs:
        _check_architecture(path)


def _check_architecture(path: Path) -> None:
    with preserved_random_state(), preserved_start_method():
        from transformers import CONFIG_MAPPING

    config = read_json(path, _Config, default=_Config())
    if config.auto_map and config.model_type not in CONFIG_MAPPING:
        raise ModelError(
            f"{path}: the architecture {config.model_type!r} needs its own code, and code shipped with a "
            "model is never run",
            remedy=REMEDY,
        )


def require_library(purpose: str) -> None:
    """Raise :class:`MissingDependencyError` if PyTorch or sentence-transformers is not installed."""
    for package in ("torch", "sentence_transformers"):
        if find_spec(package) is None:
            raise MissingDependencyError(package.replace("_", "-"), purpose=purpose)


def load_model(folder: Path, device: str | None, notify: Notify, *, multi_vector: bool = False) -> Any:
    """Load the model in ``folder`` as a ``SentenceTransformer`` or a ``MultiVectorEncoder``.

    Raises :class:`ModelError` if the files can't be loaded.
    """
    with preserved_random_state(), preserved_start_method():
        import sentence_transformers

    limit_torch()
    kind = "MultiVectorEncoder" if multi_vector else "SentenceTransformer"
    if not hasattr(sentence_transformers, kind):
        raise ModelError(
            f"sentence-transformers {sentence_transformers.__version__} can't load {folder}, a ColBERT model",
            remedy='pip install "sentence-transformers>=6.2"',
        )
    modules = modules_of(folder)
    config = native_config(folder / modules[0].path if modules else folder)
    try:
        with _quiet_loading():
            return getattr(sentence_transformers, kind)(
                str(folder),
                device=device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True, "dtype": "float32"},
                config_kwargs=config or None,
            )
    except Exception as error:  # The library can raise any exception if a file is damaged.
        if device is None and has_accelerator():
            notify(f"the model {folder.name} can't be loaded on the GPU and runs on the CPU: {error}")
            return load_model(folder, "cpu", notify, multi_vector=multi_vector)
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(f"the model in {folder} can't be loaded: {reason}", remedy=REMEDY) from error


@contextlib.contextmanager
def _quiet_loading() -> Iterator[None]:
    """Suppress progress bars and log lines about unused weights while the library loads a model."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logger = logging.get_logger("transformers.modeling_utils")
    logging.disable_progress_bar()
    logger.addFilter(_matters)
    try:
        yield
    finally:
        logger.removeFilter(_matters)
        if shown:
            logging.enable_progress_bar()


def _matters(record: LogRecord) -> bool:
    """Return false for a load report that lists only unused weights, and true for any other log record."""
    text = record.getMessage()
    return "LOAD REPORT" not in text or any(word in text for word in ("MISSING", "MISMATCH", "CONVERSION"))


def has_accelerator() -> bool:
    """Return whether PyTorch can use a GPU.

    On Linux, PyTorch is imported only if the device file of a GPU driver exists.
    """
    if sys.platform == "linux" and not any(Path(device).exists() for device in _GPU_DEVICES):
        return False
    from sentence_transformers.util import get_device_name

    return bool(get_device_name() != "cpu")
