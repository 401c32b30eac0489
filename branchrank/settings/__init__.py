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

from branchrank.settings.base import Settings
from branchrank.settings.layers import (
    DEFAULT,
    Resolved,
    Setting,
    checked,
    reaching_settings,
    read_toml,
    resolve,
    settings_of,
)
from branchrank.settings.parts import (
    PARTS,
    BenchmarkSettings,
    Bm25Settings,
    CacheSettings,
    EmbeddingSettings,
    EngineSettings,
    IndexSettings,
    LLMSettings,
)
from branchrank.settings.systems import (
    ALIASES,
    DISTANCE_THRESHOLD,
    SYSTEM_PARTS,
    GrepSettings,
    HybridSettings,
    LateInteractionSettings,
    LocalSettings,
    PageindexSettings,
    QdrantSettings,
    RetrievalSettings,
    SystemSettings,
)

__all__ = [
    "ALIASES",
    "DEFAULT",
    "DISTANCE_THRESHOLD",
    "PARTS",
    "SYSTEM_PARTS",
    "BenchmarkSettings",
    "Bm25Settings",
    "CacheSettings",
    "EmbeddingSettings",
    "EngineSettings",
    "GrepSettings",
    "HybridSettings",
    "IndexSettings",
    "LLMSettings",
    "LateInteractionSettings",
    "LocalSettings",
    "PageindexSettings",
    "QdrantSettings",
    "Resolved",
    "RetrievalSettings",
    "Setting",
    "Settings",
    "SystemSettings",
    "checked",
    "reaching_settings",
    "read_toml",
    "resolve",
    "settings_of",
]
