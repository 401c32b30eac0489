"""Open a Qdrant collection that another program created, for reading.

1. A collection on a server is searched by the server. BranchRank sends only read requests.
2. A collection in a folder was written either by Qdrant's embedded engine (as a shard) or by qdrant-client in
   local mode. The folder is first copied to a temporary folder, because opening a shard changes its files.
   Copying does not follow symbolic links, and fails if the folder is too large.
3. qdrant-client's local mode stores points as pickles. The pickles are read as plain data, without Python's
   unpickler, and the points are added to a new shard in the temporary folder.
4. Dense search uses the dense vector named ``dense`` or, if there is none, the only dense vector with the
   model's dimension. Sparse search uses the sparse vector named ``sparse``, and late interaction uses the
   multivector named ``tokens``. If there is none with this name, the collection's only one is used.
"""

from __future__ import annotations

import contextlib
import pickletools
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from branchrank.core.errors import ArtifactError, Remedy, UsageError, or_else
from branchrank.core.io.files import copy_folder
from branchrank.core.io.key_values import stored_values
from branchrank.index.stores.qdrant_engines import EmbeddedEngine, ServerEngine, edge
from branchrank.index.stores.qdrant_store import (
    DENSE,
    SPARSE,
    TOKENS,
    CollectionLayout,
    QdrantCollection,
    new_shard,
    stored_vectors,
)

REMEDY = "use another collection, or omit --qdrant-collection to search the chunks of the index"
_SHARD = "edge_config.json"


class _Vector(msgspec.Struct):
    """The dimension and metric of a dense vector, or of a multivector if it has a ``multivector_config``."""

    size: int
    distance: str
    multivector_config: Any = None


class _StoredLayout(msgspec.Struct):
    """A collection's layout, from the configuration file of a shard or of qdrant-client's local mode."""

    vectors: dict[str, Any]
    sparse_vectors: dict[str, Any] | None = None

    def described(self) -> tuple[dict[str, _Vector], Mapping[str, Any]]:
        """Return the dense vectors and the sparse vectors by name. An unnamed vector has the name ``""``."""
        named = {"": self.vectors} if "size" in self.vectors else self.vectors
        return msgspec.convert(named, dict[str, _Vector]), self.sparse_vectors or {}


class _LocalMode(msgspec.Struct):
    """The content of the file ``meta.json`` that qdrant-client writes in local mode."""

    collections: dict[str, _StoredLayout]


@contextlib.contextmanager
def open_existing(name: str, *, url: str, path: str, dimension: int) -> Iterator[QdrantCollection]:
    """Open the collection ``name`` on the server at ``url`` or in the folder ``path``.

    ``dimension`` is the dimension of the query vectors. Raises :class:`UsageError` unless exactly one of
    ``url`` and ``path`` is given. Raises :class:`ArtifactError` if the collection does not exist or has no
    vectors of this dimension.
    """
    if bool(url) == bool(path):
        raise UsageError(
            f"--qdrant-collection {name!r} needs either --qdrant-url or --qdrant-path",
            remedy=(
                Remedy("use {} for a collection on a server", "--qdrant-url"),
                Remedy("{} for a folder", "--qdrant-path"),
            ),
        )
    with ExitStack() as resources:
        if url:
            engine = ServerEngine(url, name)
            resources.callback(engine.close)
            yield QdrantCollection(engine, _served_layout(engine, dimension))
            return
        place = f"the Qdrant collection {name!r} in {path}"
        temporary = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="branchrank-")))
        try:
            stored, source = _stored(Path(path).expanduser(), name, place)
            layout = _layout(place, *stored.described(), dimension)
            copy_folder(source, temporary / "copy", remedy=REMEDY)
            shard = _opened(temporary, name, layout)
        except (ArtifactError, UsageError):
            raise
        except Exception as error:  # The engine raises plain ``Exception``.
            raise ArtifactError(f"{place} can't be read: {error}", remedy=REMEDY) from error
        resources.callback(shard.close)
        yield QdrantCollection(EmbeddedEngine(shard, place, REMEDY), layout)


def _served_layout(engine: ServerEngine, dimension: int) -> CollectionLayout:
    with engine.failures():
        names = [each.name for each in engine.client.get_collections().collections]
        if engine.name not in names:
            raise _missing(engine.place, engine.name, names)
        parameters = engine.client.get_collection(engine.name).config.params
    found = parameters.vectors
    named = found if isinstance(found, Mapping) else {"": found}
    vectors = {
        key: _Vector(each.size, str(each.distance), each.multivector_config)
        for key, each in named.items()
        if each is not None
    }
    return _layout(engine.place, vectors, parameters.sparse_vectors or {}, dimension)


def _stored(path: Path, name: str, place: str) -> tuple[_StoredLayout, Path]:
    """Return the layout of a collection below the folder ``path``, and the folder to copy."""
    shards = [each for each in (path / name, path) if (each / _SHARD).is_file()]
    if shards and (shards[0] != path or path.name == name):
        return msgspec.json.decode((shards[0] / _SHARD).read_bytes(), type=_StoredLayout), shards[0]
    if not (path / "meta.json").is_file():
        inside = sorted(each.parent.name for each in path.glob(f"*/{_SHARD}"))
        raise _missing(place, name, [*inside, *([path.name] if shards else [])])
    collections = msgspec.json.decode((path / "meta.json").read_bytes(), type=_LocalMode).collections
    if name not in collections:
        raise _missing(place, name, list(collections))
    return collections[name], path


def _opened(temporary: Path, name: str, layout: CollectionLayout) -> Any:
    """Open the copy of a shard, or create a shard with the points of the copy of a local-mode database."""
    copy = temporary / "copy"
    if (copy / _SHARD).is_file():
        return edge().EdgeShard.load(str(copy))
    shard = new_shard(temporary / "shard", layout)
    points = _local_points(copy / "collection" / name / "storage.sqlite", layout)
    EmbeddedEngine(shard, "the copy", REMEDY).upsert(points)
    return shard


def _layout(
    place: str, vectors: Mapping[str, _Vector], sparse: Mapping[str, object], dimension: int
) -> CollectionLayout:
    """Choose the vectors to search (see the module's docstring)."""
    dense = {name: each for name, each in vectors.items() if each.multivector_config is None}
    several = [name for name in vectors if name not in dense]
    fitting = [name for name, each in dense.items() if each.size == dimension]
    chosen = [DENSE] if DENSE in dense else fitting if len(fitting) == 1 else list(dense)
    if len(chosen) != 1:
        sizes = ", ".join(f"{name or 'unnamed'} of {each.size}" for name, each in dense.items()) or "none"
        raise ArtifactError(
            f"{place} must have exactly one dense vector with {dimension} dimensions, but has: {sizes}",
            remedy=REMEDY,
        )
    vector = dense[chosen[0]]
    if vector.size != dimension:
        raise ArtifactError(
            f"{place} has vectors with {vector.size} dimensions, but the embedder of the index produces "
            f"vectors with {dimension} dimensions",
            remedy="build the index with the collection's embedding model: "
            "branchrank index --embedder NAME --data-dir DIR",
        )
    names = [SPARSE] if SPARSE in sparse else list(sparse)
    tokens = TOKENS if TOKENS in several else several[0] if len(several) == 1 else None
    layout = CollectionLayout(chosen[0], vector.size, vector.distance, names[0] if len(names) == 1 else None)
    if tokens is None:
        return layout
    return layout._replace(
        tokens=tokens, token_size=vectors[tokens].size, token_metric=vectors[tokens].distance
    )


def _missing(place: str, name: str, names: Sequence[str]) -> ArtifactError:
    return ArtifactError(f"there is no {place.removeprefix('the ')}{or_else(name, names)}", remedy=REMEDY)


def _local_points(
    storage: Path, layout: CollectionLayout
) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """Yield the id, the vectors and the payload of each point in a local-mode database."""
    with stored_values(storage) as database:
        for (content,) in database.execute("SELECT point FROM points ORDER BY rowid"):
            point = read_pickled(content)
            stored = stored_vectors(point["vector"], layout)
            kept: dict[str, Any] = {}
            if stored.dense is not None:
                kept[layout.dense] = stored.dense.tolist()
            if stored.tokens is not None and layout.tokens is not None:
                kept[layout.tokens] = stored.tokens.tolist()
            if stored.sparse is not None and layout.sparse is not None:
                kept[layout.sparse] = edge().SparseVector(*stored.sparse)
            yield point["id"], kept, point["payload"] or {}


_RECORDS = frozenset(f"qdrant_client.http.models.models.{name}" for name in ("PointStruct", "SparseVector"))
_OPERATIONS = {operation.code.encode("latin-1"): operation for operation in pickletools.opcodes}
#: Operations that put the value that follows them in the file on the stack.
_VALUES = frozenset(
    ["BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"]
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: dict[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_SET": set}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_FLOATS = re.compile(rb"(?:G.{8})+", re.DOTALL)
_MARK = object()


def read_pickled(content: bytes, records: frozenset[str] = _RECORDS) -> Any:
    """Return the value in a pickle without Python's unpickler, so that no class is imported or called.

    ``records`` contains class names of the form ``module.Class``. An object of such a class becomes a
    dictionary of its fields. Raises ``ValueError`` if the pickle contains any other class or an operation
    that plain data does not need, or if it is truncated.
    """
    try:
        return _read_pickled(content, records)
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ValueError(f"the pickle does not contain plain data ({type(error).__name__})") from error


def _read_pickled(content: bytes, records: frozenset[str]) -> Any:
    stream = BytesIO(content)
    stack: list[Any] = []
    memo: dict[Any, Any] = {}

    def marked() -> list[Any]:
        """Remove the last mark and the items above it from the stack, and return the removed items."""
        place = max(number for number, each in enumerate(stack) if each is _MARK)
        above = stack[place + 1 :]
        del stack[place:]
        return above

    while True:
        if found := _FLOATS.match(content, stream.tell()):  # the numbers of a vector, all at once
            stack += np.frombuffer(found[0], dtype=[("operation", "u1"), ("value", ">f8")])["value"].tolist()
            stream.seek(found.end())
        operation = _OPERATIONS.get(stream.read(1))
        if operation is None:
            raise ValueError("the pickle ends too early or contains an unknown operation")
        name = operation.name
        value = operation.arg.reader(stream) if operation.arg else None
        if name in _VALUES:
            stack.append(value)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("APPEND", "APPENDS"):
            items = marked() if name == "APPENDS" else [stack.pop()]
            stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = marked() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif name == "ADDITEMS":
            items = marked()
            stack[-1].update(items)
        elif name == "TUPLE":
            stack.append(tuple(marked()))
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if name == "MEMOIZE" else value] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[value])
        elif name == "STACK_GLOBAL":
            class_name = f"{stack.pop(-2)}.{stack.pop()}"
            if class_name not in records:
                raise ValueError(f"the pickle contains a {class_name}, which is not plain data")
            stack.append(records)
        elif name == "NEWOBJ":
            if stack.pop() != () or stack.pop() is not records:
                raise ValueError("the pickle creates an object with arguments, which is not plain data")
            stack.append({})
        elif name == "BUILD":
            state = stack.pop()
            stack[-1].update(state.get("__dict__", state))
        elif name == "STOP":
            (value,) = stack
            return value
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"the pickle contains the operation {name}, which plain data does not need")
