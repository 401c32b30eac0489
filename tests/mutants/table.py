"""All mutants, by room."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from mutants import rooms
from mutants.mutant import Mutant

ROOMS: dict[str, tuple[Mutant, ...]] = {
    module.name: import_module(f"mutants.rooms.{module.name}").MUTANTS
    for module in pkgutil.iter_modules(rooms.__path__)
}
