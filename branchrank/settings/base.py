"""The base class of all settings records."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Meta

from branchrank.records import Record


def reaches(role: str) -> Meta:
    """Mark a setting whose value refers to a host, a model or a file outside the workspace.

    When a run is resumed, the value of a marked setting is not read from the run; it must be given as a flag.
    """
    return Meta(extra={"reaches": role})


#: Marks a text of comma-separated values, whose flag can be repeated and which may be a list in TOML.
SEVERAL = Meta(extra={"several": True})


class Settings(Record, frozen=True, kw_only=True):
    """Base class of all settings records. ``section`` is the TOML table and the flag prefix."""

    section: ClassVar[str] = ""
    #: Heading of the part's flags in ``--help``.
    title: ClassVar[str] = ""
    #: Field -> flag, for flags that are not named ``--<section>-<field>``.
    flag_names: ClassVar[dict[str, str]] = {}
