"""The base of every part's record."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Meta

from branchrank.records import Record


def reaches(role: str) -> Meta:
    """Mark a setting whose value refers to something outside the workspace: a host, a model or a file.

    A run directory may not set such a value; the person who resumes the run must give it.
    """
    return Meta(extra={"reaches": role})


#: Marks a text of several comma-separated values: its flag can be repeated, and TOML may give a list.
SEVERAL = Meta(extra={"several": True})


class Settings(Record, frozen=True, kw_only=True):
    """Base of every part's settings. ``section`` is the TOML table and the flag prefix."""

    section: ClassVar[str] = ""
    #: Heading of the part's flags in ``--help``.
    title: ClassVar[str] = ""
    #: Fields whose flag has another name than ``--<section>-<field>``.
    flag_names: ClassVar[dict[str, str]] = {}
