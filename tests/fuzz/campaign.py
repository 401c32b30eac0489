"""Fuzz one target for a while, in a process of its own: guided by coverage where atheris is installed.

atheris (libFuzzer for Python) keeps the inputs that reach new lines of the product, and mutates those. Half
of its mutations are ours (:mod:`fuzz.mutation`). Without atheris the seeds alone are mutated. A failing input
does not end the campaign; of the inputs that fail alike, the shortest is kept.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.target import Failure, Target

#: Seconds between two records of the progress.
EVERY_S = 0.5
REDUCING_S = 5.0


class Campaign:
    """Counts inputs and keeps failing ones, in the folder ``output``.

    ``progress.json`` has the count and the failures; ``current`` is the input that is being run, for whoever
    finds this process dead.
    """

    def __init__(self, target: Target, output: Path) -> None:
        self.target = target
        self.executions = 0
        self.failures: dict[str, Failure] = {}
        self._inputs: dict[str, bytes] = {}
        self._output = output
        self._current = (output / "current").open("wb", buffering=0)
        self._last = 0.0

    def run(self, content: bytes) -> None:
        """Run one input."""
        from fuzz.target import failure_of

        self._current.seek(0)
        self._current.truncate()
        self._current.write(content)
        failure = failure_of(self.target, content)
        self.executions += 1
        if failure is not None:
            key = f"{failure.kind} {failure.place}"
            if key not in self.failures or len(content) < len(self._inputs[key]):
                self.failures[key], self._inputs[key] = failure, content
                self._record()
        if time.monotonic() - self._last > EVERY_S:
            self._record()

    def _record(self) -> None:
        for number, content in enumerate(self._inputs.values()):
            (self._output / f"input-{number}").write_bytes(content)
        failures = [
            {**asdict(failure), "input": f"input-{number}"}
            for number, failure in enumerate(self.failures.values())
        ]
        told = {"executions": self.executions, "failures": failures}
        written = self._output / "progress.json.tmp"
        written.write_text(json.dumps(told))
        written.replace(self._output / "progress.json")
        self._last = time.monotonic()

    def finish(self) -> None:
        """Shorten the failing inputs and record them."""
        for key, content in self._inputs.items():
            self._inputs[key] = reduced(self.target, content, self.failures[key].place, REDUCING_S)
        self._record()


def reduced(target: Target, content: bytes, place: str, seconds: float) -> bytes:
    """A shorter input that fails at the same place, found within some seconds."""
    from fuzz.target import failure_of

    end = time.monotonic() + seconds
    size = max(1, len(content) // 2)
    while size and time.monotonic() < end:
        at, shorter = 0, False
        while at < len(content) and time.monotonic() < end:
            tried = content[:at] + content[at + size :]
            failure = failure_of(target, tried)
            if failure is not None and failure.place == place:
                content, shorter = tried, True
            else:
                at += size
        size = size if shorter and size > 1 else size // 2
    return content


def unguided(campaign: Campaign, seconds: float, seed: int) -> None:
    """Mutate the seeds."""
    from fuzz.mutation import mutated

    target, random, end = campaign.target, Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        content = random.choice(target.seeds)
        campaign.run(mutated(content, random, target.seeds, text=target.is_text))


def guided(campaign: Campaign, seconds: float, seed: int) -> None:
    """Let atheris choose what to mutate. Does not return: libFuzzer ends the process."""
    import atheris

    from fuzz.mutation import LONGEST, mutated

    target = campaign.target
    corpus = campaign._output / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, content in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(content)

    def mutate(content: bytes, longest: int, chosen: int) -> bytes:
        random = Random(chosen)
        if random.random() < 0.5:
            return atheris.Mutate(content, longest)
        return mutated(content, random, target.seeds, text=target.is_text)[:longest]

    end = time.monotonic() + seconds

    def one(content: bytes) -> None:
        campaign.run(content)
        if time.monotonic() > end:
            campaign.finish()
            sys.stdout.flush()
            os._exit(0)

    options = [f"-seed={seed}", f"-max_len={LONGEST}", "-rss_limit_mb=0", "-timeout=0", "-verbosity=0"]
    atheris.Setup([sys.argv[0], str(corpus), *options], one, custom_mutator=mutate)
    atheris.Fuzz()


def main(name: str, seconds: float, seed: int, output: Path, coverage: bool) -> None:
    """Fuzz the target ``name``; everything else of the product is imported without instruments."""
    if coverage:
        import atheris

        with atheris.instrument_imports(include=["branchrank"], enable_loader_override=False):
            from fuzz.targets import TARGETS
    else:
        from fuzz.targets import TARGETS
    logging.disable(logging.CRITICAL)
    campaign = Campaign(TARGETS[name], output)
    for content in TARGETS[name].seeds:
        campaign.run(content)
    if coverage:
        guided(campaign, seconds, seed)
    unguided(campaign, seconds, seed)
    campaign.finish()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5] == "guided")
