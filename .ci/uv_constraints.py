"""Copy the pinned versions from ``constraints.txt``, which uv does not read, to ``pyproject.toml``.

Run ``python .ci/uv_constraints.py`` after you change ``constraints.txt``. A test checks that the versions in
``pyproject.toml`` and ``constraints.txt`` are the same.
"""

from __future__ import annotations

from pathlib import Path

import tomlkit

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"


def pinned() -> list[str]:
    """Return the requirements in ``constraints.txt``, such as ``numpy==2.4.6``."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def with_constraints(text: str) -> str:
    """Replace the uv constraints in the text of a ``pyproject.toml`` with the pins in ``constraints.txt``."""
    document = tomlkit.parse(text)
    pins = tomlkit.array()
    for pin in pinned():
        pins.add_line(pin)
    pins.add_line(indent="")
    document["tool"]["uv"]["constraint-dependencies"] = pins  # type: ignore[index]
    return tomlkit.dumps(document)


if __name__ == "__main__":
    PYPROJECT.write_text(with_constraints(PYPROJECT.read_text(encoding="utf-8")), encoding="utf-8")
