"""Describe the fields of records, and read and change a field of a system by its dotted address.

1. The type, the range and the marks of a field are in its annotation, and its description is in the section
   ``Attributes:`` of the record's docstring.
2. In an address, such as ``fuse.k``, a dot separates the name of a record from the name of one of its fields.
   In an address that begins with ``branches.``, the part after the first dot is a branch's kind.
3. A TOML table that changes a system can contain three kinds of entries. An entry whose key is an address
   changes the field at this address. A nested table changes only the fields that the table lists. If the
   value of an entry is a list, the list replaces the field's current list, and the two lists are not merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from inspect import cleandoc
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from branchrank.core.errors import or_else
from branchrank.core.records import Record
from branchrank.core.spec import System


def reaches(role: str) -> Meta:
    """Mark a setting whose value refers to a host, a model or a file outside the workspace.

    When a run is resumed, a setting with this mark is not read from the run, but must be passed as a flag.
    """
    return Meta(extra={"reaches": role})


#: Marks a setting with comma-separated values. The setting's flag can be repeated, and its TOML value can be
#: a list.
SEVERAL = Meta(extra={"several": True})


class Settings(Record, frozen=True, kw_only=True):
    """Base class of all settings records. ``section`` is the name of the TOML table and the flag prefix."""

    section: ClassVar[str] = ""
    #: Heading above the section's flags in ``--help``.
    title: ClassVar[str] = ""
    #: Whether the flags are named ``--<field>``, and not ``--<section>-<field>``.
    short_flags: ClassVar[bool] = False
    #: A map from fields to flags, for the flags with another name.
    flag_names: ClassVar[dict[str, str]] = {}


#: Return the annotations of a record. Evaluating them is slow.
hints_of = cache(partial(get_type_hints, include_extras=True))


def value_at(system: System, address: str) -> Any:
    """Return the value of the field at ``address``. Raises ``AttributeError`` if the field does not exist."""
    owner, name = _owner(system, address)
    return getattr(owner, name)


def hint_at(system: System, address: str) -> tuple[Any, Meta]:
    """Return the type (without ``None``) and the range and description of the field at ``address``.

    "The branch" in the description of a branch's field is replaced by the branch's name.
    """
    owner, name = _owner(system, address)
    record: Any = type(owner)
    bare, metas = split_hint(hints_of(record)[name])
    ranged = {key: getattr(meta, key) for meta in metas for key in ("ge", "gt", "le", "lt", "extra")}
    text = field_texts(record).get(name, "")
    slot, _, rest = address.partition(".")
    if slot == "branches":
        text = text.replace("the branch", f"the {rest.split('.')[0]} branch")
    return bare, Meta(description=text, **ranged)


def split_hint(hint: Any) -> tuple[Any, list[Meta]]:
    """Return the type (without ``None``) and the marks of a field's annotation."""
    hint = without_none(hint)
    if get_origin(hint) is not Annotated:
        return hint, []
    bare, *metas = get_args(hint)
    return bare, metas


@cache
def field_texts(record: type) -> dict[str, str]:
    """Return the description of each field in the section ``Attributes:`` of a record's docstring."""
    _, _, section = cleandoc(record.__doc__ or "").partition("\nAttributes:\n")
    texts: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line.startswith(" " * 8):
            texts[name] += f" {line.strip()}"
        else:
            name, _, texts[name] = line.strip().partition(": ")
    return texts


def without_none(hint: Any) -> Any:
    """Return ``X`` for a union such as ``X | None``, and any other type unchanged."""
    kept = [each for each in get_args(hint) if each is not NoneType]
    return kept[0] if NoneType in get_args(hint) else hint


def _owner(system: System, address: str) -> tuple[Any, str]:
    """Return the record that contains the field at ``address``, and the name of the field."""
    *path, name = address.split(".")
    owner: Any = system
    for step in path:
        if isinstance(owner, tuple):
            owner = next((branch for branch in owner if branch.kind == step), None)
        else:
            owner = getattr(owner, step)
    return owner, name


def with_values(system: System, values: Mapping[str, Any]) -> System:
    """Return a copy of the system with the given values.

    Raises ``msgspec.ValidationError`` for an invalid value.
    """
    return msgspec.convert(laid_over(msgspec.to_builtins(system), values), System)


def laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a system's table ``base`` with the changes applied.

    Raises ``ValueError`` for a branch that the system does not have.
    """
    result = dict(base)
    for key, value in changes.items():
        head, _, rest = key.partition(".")
        if rest:
            result = laid_over(result, {head: _nested(rest, value)})
        elif head == "branches" and isinstance(value, Mapping):
            result["branches"] = _branches(result.get("branches", []), value)
        elif isinstance(value, Mapping) and isinstance(result.get(head), Mapping):
            result[head] = laid_over(result[head], value)
        else:
            result[head] = value
    return result


def _nested(address: str, value: object) -> dict[str, Any]:
    head, _, rest = address.partition(".")
    return {head: _nested(rest, value) if rest else value}


def _branches(branches: Sequence[Mapping[str, Any]], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not all(isinstance(branch, Mapping) and "kind" in branch for branch in branches):
        raise ValueError('branches must be a list of tables, each with a key named "kind"')
    kinds = [branch["kind"] for branch in branches]
    unknown = [kind for kind in changes if kind not in kinds]
    if unknown:
        raise ValueError(f"there is no branch {unknown[0]!r}{or_else(unknown[0], map(str, kinds))}")
    for kind, change in changes.items():
        if not isinstance(change, Mapping):
            raise ValueError(f"branches.{kind} must be a table, not {change!r}")
    return [
        laid_over(branch, changes[branch["kind"]]) if branch["kind"] in changes else dict(branch)
        for branch in branches
    ]
