"""All targets by name."""

from __future__ import annotations

from fuzz.target import Target
from fuzz.targets import doors, formats, llm, queries, readers, stores

TARGETS: dict[str, Target] = {
    target.name: target for room in (readers, formats, stores, llm, queries, doors) for target in room.TARGETS
}
