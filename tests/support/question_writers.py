"""Writers of one question file, each in a process of its own.

A writer prints a line for each write that was acknowledged: the id of the question, and the annotator of its
label, if the writer labels.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

from support.commands import invoke, program
from support.http_server import CLIENT
from support.local_page import TOKEN, page_of

import branchrank
from branchrank.core.records import Question
from branchrank.questions.labels import labels_of
from branchrank.questions.question_files import load_questions

ROOT = Path(__file__).parents[1]
Acknowledged = tuple[str, str]
#: The writes of each of the writers to one file. After that, they go on with another, as a file of thousands
#: of lines takes long to read.
EACH = 25


def file_of(folder: Path, number: int) -> Path:
    """The file that all writers of the library write the write ``number`` to."""
    return folder / "data" / (f"more-{number // EACH}.jsonl" if number >= EACH else "questions.jsonl")


def written(folder: Path, writers: dict[str, tuple[str, int]]) -> dict[str, list[Acknowledged]]:
    """Let writers of ``folder/data/questions.jsonl`` write at once, and return what was acknowledged to each.

    A writer has a name, a kind and a number of writes. If the number is negative, it is killed after that
    many writes, in the middle of another.
    """

    def run(name: str) -> list[Acknowledged]:
        words = ("-m", "support.question_writers", writers[name][0], folder, name, writers[name][1])
        done = program(*words, cwd=folder, environment={"PYTHONPATH": str(ROOT)}, timeout=600)
        assert done.returncode == (0 if writers[name][1] >= 0 else -9), done.stderr
        lines = [line.rstrip("\n") for line in done.stdout.splitlines(True) if line.endswith("\n")]
        return [(question, annotator) for question, _, annotator in (line.partition(" ") for line in lines)]

    with ThreadPoolExecutor(len(writers)) as threads:
        return dict(zip(writers, threads.map(run, writers), strict=True))


def lost(folder: Path, done: dict[str, list[Acknowledged]]) -> list[Acknowledged]:
    """The acknowledged writes that are not in the file."""
    questions = [each for path in (folder / "data").glob("*.jsonl") for each in load_questions(path)]
    there = {(each.id, "") for each in questions}
    there |= {(each.id, label.annotator) for each in questions for label in labels_of(each)}
    return [each for told in done.values() for each in told if each not in there]


def add(folder: Path, name: str, count: int) -> Iterator[Acknowledged]:
    """Add questions with the library."""
    with branchrank.Workspace.open(folder / "data") as workspace:
        for number in range(count):
            asked = Question(id=f"{name}-{number}", question=f"{name} {number}?", answerable=False)
            workspace.questions.add(asked, file_of(folder, number))
            yield asked.id, ""


def label(folder: Path, name: str, count: int) -> Iterator[Acknowledged]:
    """Label one run's passages with the library, in turn for many annotators."""
    run = branchrank.Run.load(min((folder / "reports").glob("*-*")))
    with branchrank.Workspace.open(folder / "data") as workspace:
        for number in range(count):
            if number % EACH == 0:
                labeling = workspace.questions.label(run, file_of(folder, number), annotator=name)
                passages = labeling.waiting()
            labeling.annotator = f"{name}-{number}"
            passage = passages[number % len(passages)]
            labeling.add(passage, "no")
            yield passage.question.id, labeling.annotator


def view(folder: Path, name: str, count: int) -> Iterator[Acknowledged]:
    """Add questions on the local page of one server, which shows a version of the file that may be old."""
    with page_of(folder) as page:
        digest = CLIENT.get(f"{page.url}/api/document", params={"source": "page-0.md"}).json()["digest"]
        headers = {"origin": page.url, "authorization": f"Bearer {TOKEN}"}
        version = ""
        for number in range(count):
            new = {"run": "", "question": "", "text": f"{name} {number}?", "label": "yes", "document": digest}
            place = {"source": "page-0.md", "first": 5, "last": 6}
            status = 0
            while status != 200:
                body = {**new, **place, "version": version}
                answer = CLIENT.post(f"{page.url}/api/labels", json=body, headers=headers)
                status = answer.status_code
                assert status in (200, 409), answer.text
                shown = answer if status == 200 else CLIENT.get(f"{page.url}/api/label", params={"run": ""})
                version = shown.json()["version"]
            yield answer.json()["id"], "ada"


def added_by_command(folder: Path, name: str, count: int) -> Iterator[Acknowledged]:
    """Add questions with the command."""
    for number in range(count):
        words = ("--question", f"{name} {number}?", "--id", f"{name}-{number}", "--unanswerable", "--quiet")
        assert invoke("questions", "add", "--data-dir", folder / "data", *words).exit_code == 0
        yield f"{name}-{number}", ""


def labeled_by_command(folder: Path, name: str, count: int) -> Iterator[Acknowledged]:
    """Label a passage with the command, for one annotator after the other."""
    run, file = min((folder / "reports").glob("*-*")), folder / "data" / "questions.jsonl"
    for number in range(count):
        words = ("--annotator", f"{name}-{number}", "--output", file, "--data-dir", folder / "data")
        assert invoke("questions", "label", run, *words, typed="n\nq\n").exit_code == 0
        own = [each for each in load_questions(file) if f"'{name}-{number}'" in repr(labels_of(each))]
        yield own[0].id, f"{name}-{number}"


def reanchored(folder: Path, name: str, count: int) -> Iterator[Acknowledged]:
    """Rewrite the file without a change."""
    with branchrank.Workspace.open(folder / "data") as workspace:
        for _ in range(count):
            workspace.questions.reanchor()
    yield from ()


if __name__ == "__main__":
    kind, folder, name, count = sys.argv[1:]
    writes = globals()[kind](Path(folder), name, int(count) if int(count) >= 0 else 10_000)
    for number, (question, annotator) in enumerate(writes, start=1):
        print(question, annotator, flush=True)
        if number == -int(count):
            Timer(number / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()
