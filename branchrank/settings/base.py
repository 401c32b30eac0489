"""The base class of all settings records."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Meta

from branchrank.records import Record


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
    #: A map from fields to flags, for the flags that are not named ``--<section>-<field>``.
    flag_names: ClassVar[dict[str, str]] = {}
