"""The base of every part's record."""

from __future__ import annotations

from typing import ClassVar

from branchrank.records import Record


class Settings(Record, frozen=True, kw_only=True):
    """Base of every part's settings. ``section`` is the TOML table and the flag prefix."""

    section: ClassVar[str] = ""
    #: Fields whose flag has another name than ``--<section>-<field>``.
    flag_names: ClassVar[dict[str, str]] = {}
