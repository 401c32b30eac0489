"""Find the files of a model in a folder or in the hub's local cache, or download them from the hub.

1. If the model's name is the path of an existing folder, that folder is used.
2. If the model's name is not the path of a folder, the hub's local cache is searched for the model, without a
   network connection.
3. A model that is not in the local cache is downloaded. The first request to the hub has a short timeout, so
   the command fails within seconds if the hub does not respond. Only the model card
   and configuration, vocabulary and safetensors files are downloaded, never code or pickles.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import yaml

from branchrank.core.errors import ModelError, Remedy
from branchrank.core.io.files import NOT_JSON, digest_file, digest_of
from branchrank.core.io.progress import Notify
from branchrank.core.records import Record

#: The number of seconds to wait for a response from the hub.
TIMEOUT = 5.0
_FETCHED = ["*.json", "*.txt", "README.md", "*.model", "*.safetensors", "artifact.metadata"]
REMEDY = Remedy(
    "choose another model, such as {}, which needs no download from a model hub",
    "--embedder",
    "all-MiniLM-L6-v2",
)
_REMEDY = (REMEDY, "pass a local folder", "check the network connection")


class Module(Record, frozen=True, kw_only=True):
    """One entry of a model's ``modules.json``."""

    type: str
    path: str = ""


def model_folder(model: str, revision: str, notify: Notify) -> Path:
    """Return the folder that contains the files of ``model`` at ``revision``.

    ``model`` is a path or a hub name. If ``revision`` is empty, the default revision on the hub is used.
    ``notify`` is called before a download. Raises :class:`ModelError` if the model is not available.
    """
    folder = Path(model).expanduser()
    if os.path.isdir(folder):  # unlike Path, also for names that are too long
        return folder
    if folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise ModelError(f"there is no model folder {model!r}", remedy=Remedy("correct {}", "--embedder"))
    cached = _cached(model, revision)
    return cached if cached is not None else _download(model, revision, notify)


def folder_revision(folder: Path, asked: str) -> str:
    """Return the model's commit if ``folder`` is in the hub's cache, and ``asked`` otherwise."""
    return folder.name if folder.parent.name == "snapshots" else asked


def _snapshot(model: str, revision: str, **options: Any) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model, revision=revision or None, allow_patterns=_FETCHED, **options))


def _cached(model: str, revision: str) -> Path | None:
    from huggingface_hub.errors import HFValidationError

    try:
        folder = _snapshot(model, revision, local_files_only=True)
    except HFValidationError as error:
        raise ModelError(
            f"{model!r} is not a valid model name: {error}", remedy=Remedy("correct {}", "--embedder")
        ) from None
    except OSError:
        return None
    # The folder is incomplete after an interrupted download.
    complete = (folder / "config.json").is_file() and any(folder.rglob("*.safetensors"))
    return folder if complete else None


def _download(model: str, revision: str, notify: Notify) -> Path:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    notify(f"downloading the model {model} from {HfApi().endpoint}")
    try:
        found = HfApi().model_info(model, revision=revision or None, timeout=TIMEOUT)
        names = [sibling.rfilename for sibling in found.siblings or ()]
        if any(name.endswith(".safetensors") for name in names):
            # Download by the name of the revision, not by its hash, because the cache is searched by name.
            return _snapshot(model, revision, etag_timeout=TIMEOUT)
    except (RepositoryNotFoundError, RevisionNotFoundError):
        at = f" at revision {revision!r}" if revision else ""
        raise ModelError(f"the hub has no public model {model!r}{at}", remedy=_REMEDY) from None
    except Exception as error:  # The hub's client raises errors of several HTTP libraries.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(f"the model {model!r} can't be downloaded: {reason}", remedy=_REMEDY) from error
    raise ModelError(
        f"the model {model!r} has no safetensors weights, and pickled weights are never loaded",
        remedy=_REMEDY,
    )


def modules_of(folder: Path) -> tuple[Module, ...]:
    """Return the sentence-transformers modules of a model, or an empty tuple for a plain transformer.

    Raises :class:`ModelError` if ``modules.json`` can't be read.
    """
    modules: tuple[Module, ...] = read_json(folder / "modules.json", tuple[Module, ...], default=())
    return modules


def read_json(path: Path, record_type: type[Any], *, default: Any) -> Any:
    """Decode a model's JSON file into a ``record_type``, or return ``default`` if the file does not exist.

    Raises :class:`ModelError` if the file can't be read or decoded.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=record_type)
    except FileNotFoundError:
        return default
    except (OSError, *NOT_JSON) as error:
        raise ModelError(f"{path} can't be read: {error}", remedy=REMEDY) from error


def files_digest(folder: Path, *patterns: str) -> str:
    """Return a SHA-256 hash of the names and contents of the matching files below ``folder``."""
    files = sorted(path for pattern in patterns for path in folder.rglob(pattern))
    return digest_of({path.relative_to(folder).as_posix(): digest_file(path) for path in files})


def card_languages(folder: Path) -> tuple[str, ...]:
    """Return the codes of the languages that the model card in ``folder`` names, if any."""
    try:
        _, mark, rest = (folder / "README.md").read_text(encoding="utf-8").partition("---\n")
        named = yaml.safe_load(rest.partition("\n---")[0]) if mark else {}
        found = named.get("language") or ()
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return ()
    codes = tuple(map(str, (found,) if isinstance(found, str) else found))
    return () if "multilingual" in codes else codes
