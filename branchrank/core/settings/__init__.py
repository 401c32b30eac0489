"""Settings from defaults, TOML, the environment and flags, with one frozen record per section.

1. The record of a section defines the type, default, range and meaning of each setting in the section. An
   alias for a field of a built-in system has the type, default, range and meaning of that field.
2. :func:`resolve` merges the four layers: flags override environment variables, environment variables
   override TOML, and TOML overrides the defaults. :func:`resolve` checks every value, and reports all
   problems together.
3. The commands' flags, the settings page in the docs and the settings in ``run.json`` are generated from the
   settings records.

The ``vector_top_n`` setting in the section ``local`` is ``[local] vector_top_n`` in TOML,
``BRANCHRANK_LOCAL_VECTOR_TOP_N`` in the environment and ``--local-vector-top-n`` on the command line.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from branchrank.core.errors import Problems, UsageError, or_else, suggestion
from branchrank.core.io.text_files import read_text
from branchrank.core.records import Record
from branchrank.core.settings.fields import Settings as Settings
from branchrank.core.settings.fields import field_texts, hints_of, split_hint
from branchrank.core.settings.parts import PARTS as PARTS
from branchrank.core.settings.parts import SECTIONS as SECTIONS
from branchrank.core.settings.parts import AnchoringSettings as AnchoringSettings
from branchrank.core.settings.parts import BenchmarkSettings as BenchmarkSettings
from branchrank.core.settings.parts import Bm25Settings as Bm25Settings
from branchrank.core.settings.parts import CacheSettings as CacheSettings
from branchrank.core.settings.parts import EmbeddingSettings as EmbeddingSettings
from branchrank.core.settings.parts import EngineSettings as EngineSettings
from branchrank.core.settings.parts import IndexSettings as IndexSettings
from branchrank.core.settings.parts import LLMSettings as LLMSettings
from branchrank.core.settings.systems import ALIASES as ALIASES
from branchrank.core.settings.systems import DISTANCE_THRESHOLD as DISTANCE_THRESHOLD
from branchrank.core.settings.systems import SYSTEM_PARTS as SYSTEM_PARTS
from branchrank.core.settings.systems import AgentSettings as AgentSettings
from branchrank.core.settings.systems import GrepRanking as GrepRanking
from branchrank.core.settings.systems import GrepSettings as GrepSettings
from branchrank.core.settings.systems import HybridSettings as HybridSettings
from branchrank.core.settings.systems import LateInteractionSettings as LateInteractionSettings
from branchrank.core.settings.systems import LocalSettings as LocalSettings
from branchrank.core.settings.systems import PageindexSettings as PageindexSettings
from branchrank.core.settings.systems import QdrantSettings as QdrantSettings
from branchrank.core.settings.systems import RetrievalSettings as RetrievalSettings
from branchrank.core.settings.systems import SystemSettings as SystemSettings
from branchrank.core.spec import RECOMMENDED, System

S = TypeVar("S", bound=Settings)
#: The origin of a value that is not set by TOML, the environment or a flag.
DEFAULT = "default"
#: The folders that commands use unless others are given: the workspace, the runs and the demo.
DEFAULT_DATA_DIR = Path("data")
DEFAULT_REPORTS = Path("reports")
DEMO_FOLDER = Path("branchrank-demo")


class Setting(Record, frozen=True, kw_only=True):
    """The description of one setting, for flags, docs and error messages.

    ``reaches`` is the kind of host, model or file outside the workspace that the value refers to, such as
    ``Qdrant server``. If the value refers to nothing outside the workspace, ``reaches`` is empty.
    """

    section: str
    name: str
    flag: str
    type: Any
    default: Any
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    #: Whether the value is a comma-separated list, stored as one string.
    several: bool = False
    #: The recommended range. Values outside the recommended range are allowed, but cause a warning.
    recommended: tuple[float, float] | None = None
    reaches: str = ""

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return f"BRANCHRANK_{self.section}_{self.name}".upper()

    @property
    def allowed(self) -> str:
        """The allowed values in words, or an empty string if every value of the type is allowed."""
        if self.choices:
            return ", ".join(self.choices)
        if self.low is not None and self.high is not None:
            advice = " (recommended: {:g} to {:g})".format(*self.recommended) if self.recommended else ""
            return f"{_number(self.low)} to {_number(self.high)}{advice}"
        if self.low is not None:
            return f"at least {_number(self.low)}"
        return ""


def _number(value: float) -> str:
    """Format the bound of a range in digits, without an exponent."""
    return str(int(value)) if value == int(value) else str(value)


@cache
def settings_of(part: type[Settings]) -> tuple[Setting, ...]:
    """Return the description of every setting in a settings record, in the order of the record's fields."""
    hints, defaults = hints_of(part), part()
    prefix = "" if part.short_flags else f"{part.section}-"
    described = []
    for name in part.__struct_fields__:
        bare, metas = split_hint(hints[name])
        extra = {key: value for meta in metas for key, value in (meta.extra or {}).items()}
        texts = [meta.description for meta in metas if meta.description]
        flag = part.flag_names.get(name, f"--{prefix}{name}".replace("_", "-"))
        described.append(
            Setting(
                section=part.section,
                name=name,
                flag=flag,
                type=bare,
                default=getattr(defaults, name),
                description=texts[0] if texts else field_texts(part)[name],
                low=_bound(metas, "ge", "gt"),
                high=_bound(metas, "le", "lt"),
                choices=tuple(str(choice) for choice in get_args(bare))
                if get_origin(bare) is Literal
                else (),
                recommended=extra.get(RECOMMENDED),
                several="several" in extra,
                reaches=extra.get("reaches", ""),
            )
        )
    return tuple(described)


def _bound(metas: Sequence[msgspec.Meta], *names: str) -> float | None:
    """Return the first of the bounds (such as ``ge``) that a mark sets."""
    return next((each for meta in metas for name in names if (each := getattr(meta, name)) is not None), None)


@cache
def reaching_settings() -> dict[str, Setting]:
    """Return the settings that refer to something outside the workspace, keyed by ``section.name``."""
    described = (setting for part in PARTS for setting in settings_of(part))
    return {f"{each.section}.{each.name}": each for each in described if each.reaches}


class Resolved(Record, frozen=True, kw_only=True):
    """All settings, and the origin of each value, such as ``"flag --local-rrf-k"`` for ``"local.rrf_k"``.

    ``system`` is the table ``[system]`` of a workspace, which is its default system.
    """

    parts: dict[str, Settings]
    origins: dict[str, str]
    system: System | None = None

    def part(self, record_type: type[S]) -> S:
        """Return the settings of one section."""
        value = self.parts[record_type.section]
        assert isinstance(value, record_type)
        return value

    def with_parts(self, *changed: Settings) -> Resolved:
        """Return a copy with other settings for some sections."""
        return msgspec.structs.replace(self, parts={**self.parts, **{part.section: part for part in changed}})

    @property
    def warnings(self) -> list[str]:
        """A warning for each value outside its recommended range."""
        found = []
        for part in PARTS:
            for setting in settings_of(part):
                value = getattr(self.parts[part.section], setting.name)
                if setting.recommended and not setting.recommended[0] <= value <= setting.recommended[1]:
                    low, high = setting.recommended
                    found.append(
                        f"{setting.section}.{setting.name} = {value} "
                        f"({self.origins[f'{setting.section}.{setting.name}']}) is outside the recommended "
                        f"range of {low:g} to {high:g}"
                    )
        return found


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file, or an empty dict if the file does not exist.

    Raises :class:`UsageError` with the file and line if the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(read_text(path, error=UsageError))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:  # a number with 5,000 digits raises ValueError
        raise UsageError(f"{path} is not TOML: {error}", remedy=f"correct {path}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy=f"make {path} readable") from None


def resolve(
    *,
    toml: Mapping[str, Any] | None = None,
    toml_name: str = "branchrank.toml",
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Resolved:
    """Merge defaults, TOML, environment variables and flags into the settings of every section.

    An embedder ``openai:MODEL`` without an endpoint of its own uses that of ``hybrid.base_url``. ``flags``
    maps ``"section.name"`` to the values given on the command line or by the caller. Raises a
    :class:`UsageError` that lists every unknown name, and every invalid value with its origin and the allowed
    range.
    """
    toml = toml or {}
    environment = os.environ if environment is None else environment
    flags = flags or {}
    names = [f"{part.section}.{setting.name}" for part in PARTS for setting in settings_of(part)]
    problems = [_unknown_name(name, names) for name in flags if name not in names]
    parts: dict[str, Settings] = {}
    origins: dict[str, str] = {}
    for part in PARTS:
        table = toml.get(part.section, {})
        if not isinstance(table, Mapping):
            problems.append(f"{toml_name}: [{part.section}] must be a table")
            table = {}
        settings = settings_of(part)
        known = [setting.name for setting in settings]
        problems.extend(
            f"{toml_name}: [{part.section}] has no setting {name!r}{meant(name) or or_else(name, known)}"
            for name in table
            if name not in known
        )
        values: dict[str, Any] = {}
        for setting in settings:
            key, variable = f"{part.section}.{setting.name}", setting.variable
            layers = (
                (flags, key, f"flag {setting.flag}"),
                (environment, variable, f"environment {variable}"),
                (table, setting.name, toml_name),
                ({setting.name: setting.default}, setting.name, DEFAULT),
            )
            value, origin = next((layer[name], origin) for layer, name, origin in layers if name in layer)
            origins[key] = origin
            try:
                values[setting.name] = checked(part, setting, value)
            except ValueError:
                allowed = f"; allowed: {setting.allowed}" if setting.allowed else ""
                problems.append(f"{setting.section}.{setting.name} = {value!r} ({origin}){allowed}")
        if len(values) == len(settings):
            parts[part.section] = part(**values)
    if problems:
        raise Problems(
            "invalid settings:",
            problems,
            remedy="correct the settings; `branchrank settings` lists all names, values and ranges",
        )
    made = Resolved(parts=parts, origins=origins)
    index, shared = made.part(IndexSettings), made.part(HybridSettings).base_url
    if shared and index.embedder.startswith("openai:") and not index.embedding_url:
        origins["index.embedding_url"] = origins["hybrid.base_url"]
        made = made.with_parts(msgspec.structs.replace(index, embedding_url=shared))
    return made


def meant(name: str) -> str:
    """Return which setting the flag ``--name`` has, for an error about an unknown key, or ""."""
    flag = f"--{name}".replace("_", "-")
    every = (each for part in PARTS for each in settings_of(part) if each.flag == flag)
    return next((f"; {flag} is `{each.name}` in [{each.section}]" for each in every), "")


def _unknown_name(name: str, names: Sequence[str]) -> str:
    near = suggestion(name, names)
    return f"there is no setting {name!r}" + (f"; {near}" if near else "")


def checked(part: type[Settings], setting: Setting, value: object) -> Any:
    """Convert a value to the setting's type.

    Raises ``ValueError`` if the value has the wrong type or is out of range.
    """
    hint = hints_of(part)[setting.name]
    if isinstance(value, str) and setting.type is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in words:
            raise ValueError(value)
        value = words[value.lower()]
    if setting.several and isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        value = ",".join(value) if setting.type is str else value[0] if len(value) == 1 else value
    try:
        return msgspec.convert(value, hint, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
