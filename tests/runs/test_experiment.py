"""Experiment files: inheritance, sweeps, several indexes, and every problem at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.commands import ROOT, invoke, json_lines, make_project, table

from branchrank import System, Workspace
from branchrank.core.errors import UsageError
from branchrank.core.settings import PARTS, Setting, settings_of
from branchrank.core.spec import Branch
from branchrank.runs.bench.experiment import plan_from_experiment
from branchrank.runs.bench.plan import Plan


def read(tmp_path: Path, text: str, **flags: object) -> Plan:
    path = tmp_path / "experiment.toml"
    path.write_text(f'name = "x"\ndata_dir = "{tmp_path}"\n{text}')
    return plan_from_experiment(path, {name.replace("__", "."): value for name, value in flags.items()})


def named(experiment: Plan) -> dict[str, object]:
    return {each.system.name: each.system for each in experiment.predictors}


def test_a_built_in_name_starts_from_that_system_with_the_workspaces_settings(tmp_path: Path) -> None:
    (tmp_path / "branchrank.toml").write_text("[local]\nvector_top_n = 7\n")
    local = named(read(tmp_path, "[systems.local]\nrrf_k = 10"))["local"]
    assert (local.branches[0].top_n, local.fuse.k) == (7, 10)


def test_systems_inherit_through_several_levels(tmp_path: Path) -> None:
    systems = named(
        read(
            tmp_path,
            """
[systems.grandchild]
from = "child"
branches.dense.weight = 2.0
[systems.child]
from = "hybrid"
neighbor_depth = 0
[systems.hybrid]
rerank.method = "none"
candidate_cap = 20
""",
        )
    )
    assert list(systems) == ["grandchild", "child", "hybrid"]
    for name, depth, weight in (("grandchild", 0, 2.0), ("child", 0, 1.0), ("hybrid", 1, 1.0)):
        dense = systems[name].branches[0]
        assert (dense.expand.depth, dense.weight, systems[name].fuse.cap) == (depth, weight, 20)
        assert systems[name].rerank.method == "none"


def test_a_sweep_creates_every_combination(tmp_path: Path) -> None:
    systems = named(
        read(tmp_path, "[systems.local]\nsweep = { rrf_k = [2, 10, 60], bm25_weight = [0.5, 1.0] }")
    )
    assert len(systems) == 6
    assert systems["local[rrf_k=2, bm25_weight=0.5]"].fuse.k == 2
    assert {(s.fuse.k, s.branches[1].weight) for s in systems.values()} == {
        (k, w) for k in (2, 10, 60) for w in (0.5, 1.0)
    }


def test_settings_are_short_names_for_addresses_outside_slots(tmp_path: Path) -> None:
    text = (
        "[systems.hybrid]\nrrf_k = 1\nsiblings = 3\nbranches.dense.expand = { file_roots = 0 }\n"
        "branches.bm25.top_n = 3\n"
        '[systems.plain]\nfrom = "hybrid"\nrrf_k = 2'
    )
    systems = named(read(tmp_path, text))
    dense, bm25 = systems["hybrid"].branches
    assert systems["hybrid"].fuse.k == 1
    assert (dense.expand.siblings, dense.expand.file_roots, dense.expand.depth) == (3, 0, 1)
    assert (dense.top_n, bm25.top_n) == (40, 3)
    assert systems["plain"].fuse.k == 2


def test_indexes_inherit_the_index_settings_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "branchrank.toml").write_text('[index]\nembedder = "fake:32"\nchunk_tokens = 100\n')
    experiment = read(
        tmp_path,
        "[indexes.small]\nchunk_tokens = 50\n[systems.local]\n"
        '[systems.other]\nfrom = "local"\nindex = "small"',
    )
    parts = {name: settings.parts["index"] for name, settings in experiment.indexes.items()}
    assert {name: (part.embedder, part.chunk_tokens) for name, part in parts.items()} == {
        "default": ("fake:32", 100),
        "small": ("fake:32", 50),
    }
    assert [(each.system.name, each.index) for each in experiment.predictors] == [
        ("local", "default"),
        ("other", "small"),
    ]


@pytest.mark.parametrize("missing", ["data", "asked.jsonl"])
def test_a_file_whose_paths_start_in_its_folder_is_run_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    home, away = make_project(tmp_path / "my docs"), tmp_path / "away"
    asked = home / "data" / "benchmark" / "questions.jsonl"
    asked.rename(home / "asked.jsonl")
    (home / "x.toml").write_text('name = "x"\nquestions = "asked.jsonl"\n[systems.bm25]\n')
    away.mkdir()
    [there] = {"data", "asked.jsonl"} - {missing}
    (away / there).symlink_to(home / there)
    monkeypatch.chdir(away)
    refused = invoke("run", "../my docs/x.toml")
    assert (refused.exit_code, str(away / missing) in refused.stderr) == (2, True)
    change, run = refused.stderr.split("fix: ")[1].split(" && ")
    monkeypatch.chdir(shlex.split(change)[1])
    done = invoke(*shlex.split(run)[1:], "--dry-run")
    assert done.exit_code == 0, done.output


def test_flags_override_the_file_and_the_file_overrides_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "branchrank.toml").write_text("[benchmark]\nsample_size = 1\nsample_seed = 1\ntop_k = 1\n")
    text = "[benchmark]\nsample_size = 2\nsample_seed = 2\n[systems.local]"
    part = read(tmp_path, text, benchmark__sample_size=3).settings.parts["benchmark"]
    assert (part.sample_size, part.sample_seed, part.top_k) == (3, 2, 1)


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(
            tmp_path,
            """repeats = 0
[benchmark]
primary = "strict_nothing@1"
[systems.a]
from = "nowhere"
[systems.b]
from = "c"
[systems.c]
from = "b"
[systems.local]
rrf_k = 0
[systems.asking]
from = "hybrid"
rerank.method = "pointwise"
[systems.pageindex]
branches.dense.top_n = 3
[systems.mixed]
branches = [{ kind = "bm25", unit = "node" }, { kind = "dense" }]
index = "absent"
[systems.empty]
branches = []
[systems.itself]
from = "itself"
[systems.typo]
branches = [{ kind = "bm25" }]
branchs = 3
[indexes.bad]
chunk_tokens = 1
""",
        )
    message = caught.value.message
    for part in (
        "repeats = 0",
        "unknown measure 'strict_nothing@1'",
        "unknown system 'nowhere'",
        "inherits from itself: b -> c -> b",
        "[systems.itself] inherits from itself: itself -> itself",
        "[systems.local] Expected `int` >= 1",
        "'asking' uses an LLM, but has no endpoint",
        "[systems.pageindex] there is no branch 'dense'; choose from tree",
        "'mixed' fuses chunks with nodes",
        "uses the index 'absent'",
        "'empty' has no branches",
        "unknown field `branchs`",
        "chunk_tokens = 1",
    ):
        assert part in message, part
    assert "has 14 problems:" in message
    assert caught.value.exit_code == 2


def test_an_endpoint_enables_the_llm_stages_of_a_built_in_system(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        f"""name = "llm"
data_dir = "{tmp_path}"
[systems.hybrid]
[systems.pageindex]
[systems.named]
from = "hybrid"
llm.base_url = "http://127.0.0.1:9/v1"
model = "tiny"
[systems.child]
from = "named"
rrf_k = 5
[systems.walking]
from = "pageindex"
base_url = "http://127.0.0.1:9/v1"
model = "tiny"
[systems.swept]
from = "hybrid"
model = "tiny"
sweep = {{ base_url = ["", "http://127.0.0.1:9/v1"] }}
[systems.plain]
from = "named"
rerank.method = "none"
[systems.late-interaction]
base_url = "http://127.0.0.1:9/v1"
model = "tiny"
[systems.agent-grep]
llm = {{ base_url = "http://127.0.0.1:9/v1", model = "tiny" }}
[systems.short]
from = "agent-memory"
base_url = "http://127.0.0.1:9/v1"
model = "tiny"
branches.agent.options.max_steps = 2
"""
    )
    asking = {named.system.name: named.system.asks_llm for named in plan_from_experiment(path).predictors}
    assert asking == {
        "hybrid": False,
        "pageindex": False,
        "named": True,
        "child": True,
        "walking": True,
        "swept[base_url=]": False,
        "swept[base_url=http://127.0.0.1:9/v1]": True,
        "plain": False,
        "late-interaction": True,
        "agent-grep": True,
        "short": True,
    }


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("[systems.hybrid]\nbranches.dens.top_n = 2", "`dense`"),
        ("[systems.mine]\nbranches = [{ kind = 'dens' }]", "`dense`"),
        ("[systems.mine]\nfrom = 'hybird'", "`hybrid`"),
        ("[systems.local]\nindex = 'smal'\n[indexes.small]", "`small`"),
        ("[systems.local]\n[benchmark]\nbaseline = 'locl'", "`local`"),
        ("[systems.local]\n[benchmark]\nsample_sise = 3", "`sample_size`"),
        ("[system.local]", "`systems`"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path, line: str, near: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(f'name = "x"\ndata_dir = "{tmp_path}"\n{line}\n')
    with pytest.raises(UsageError) as caught:
        plan_from_experiment(path)
    assert f"did you mean {near}?" in caught.value.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "systems"),
        ("systems = 3", "systems"),
        ("nonsense = 1\n[systems.local]", "nonsense"),
        ("[systems]\nlocal = 3", "Expected `object`, got `int` - at `$.systems[...]`"),
        ("[systems.local", "not TOML"),
        ("[systems]", "the experiment has no systems"),
        ("[systems.local]\nsweep = 3", "sweep"),
        ("[systems.local]\nrrfk = 5", "unknown field `rrfk`"),
        ("[systems.hybrid]\nbranches.dense.expand.dept = 2", "unknown field `dept`"),
        ("[systems.local]\nrerank.method = 'pointwize'", "'pointwize' - at `$.rerank.method`"),
        ('[systems.local]\nbranches = "all"', "branches"),
        ("[systems.local]\nbranches = [{ top_n = 3 }]", "kind"),
        ("[systems.local]\nfrom = 3", "Expected `str`, got `int` - at `$.from`"),
        (
            "[systems.late-interacton]",
            "none of branches, from, predictor and command; did you mean `late-interaction`?",
        ),
        ("[systems.local]\nindex = []", "index"),
        ("[systems.local]\nchunker = 'window'", "move it to a table [indexes.NAME]"),
        ("[systems.local]\nindex.chunk_tokens = 64", "chunk_tokens is a setting of an index"),
        ("[systems.local]\nbranches.dense = 3", "branches"),
        ("[systems.local]\nfuse = 3", "fuse"),
        ("[systems.local]\nsweep = { rrf_k = [] }", "at least one value"),
        ('[systems.local]\nsweep = { branches = [["bm25"]], "branches.bm25.top_n" = [3] }', "$.branches[0]"),
        ("[systems.local]\nbranches.bm25.top_n.x = 3", "top_n"),
        ("[systems.local]\nrrf_k.x = 3", "fuse.k"),
    ],
)
def test_a_file_with_the_wrong_structure_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert reason in caught.value.message


def test_an_experiment_over_several_indexes_runs_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    text = (ROOT / "examples" / "experiment.toml").read_text()
    (project / "x.toml").write_text(text.replace("sample_size = 20", "sample_size = 0\nlatency_sample = 0"))
    planned = invoke("run", "x.toml", "--dry-run")
    assert planned.exit_code == 0
    assert "  flat on index" in planned.stdout
    assert not (project / "reports").exists()
    done = invoke("run", "x.toml")
    assert done.exit_code == 0, done.output
    assert "building it" in done.stderr, "the small index was missing"
    [made] = (project / "reports").iterdir()
    assert made.name.endswith("-tree-k-and-chunk-size-42")
    names = ["hybrid", "flat", "local[rrf_k=10]", "local[rrf_k=60]", "small-words"]
    assert [row["predictor"] for row in table(made / "summary.csv")] == names
    rows = json_lines(made / "rows.jsonl")
    assert len(rows) == 5 * 8
    of_flat = [row["stages"] for row in rows if row["predictor"] == "flat"]
    assert all("rerank" not in stages for stages in of_flat)


TWO_INDEXES = """
name = "two models"
[benchmark]
latency_sample = 0
top_k = 50
[indexes.other]
embedder = "fake:96"
[indexes.short]
chunker = "document"
[systems.dense]
[systems.dense-other]
from = "dense"
index = "other"
[systems.both]
fuse.method = "{method}"
branches = [{{ kind = "dense" }}, {{ kind = "{kind}", index = "{index}" }}, {{ kind = "bm25" }}]
"""


@pytest.mark.parametrize("method", ["rrf", "score"])
def test_a_branch_searches_another_index_over_the_same_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    (project / "x.toml").write_text(TWO_INDEXES.format(method=method, kind="dense", index="other"))
    done = invoke("run", "x.toml", "--jobs", "1")
    assert done.exit_code == 0, done.output
    [made] = (project / "reports").iterdir()
    lists = {
        (row["predictor"], row["question_id"], stage["stage"]): stage["keys"]
        for row in json_lines(made / "rows.jsonl")
        for stage in row["trace"]
    }
    questions = {question for name, question, _ in lists if name == "both"}
    assert len(questions) == 8
    for question in questions:
        for name, stage in (("dense", "dense(chunks)"), ("dense-other", "dense(chunks)@other")):
            assert lists["both", question, stage] == lists[name, question, "dense(chunks)"]
    assert any(
        lists["both", each, "dense(chunks)"] != lists["both", each, "dense(chunks)@other"]
        for each in questions
    )
    verified = invoke("verify", made, "--rerun", "4", "--trust")
    assert verified.exit_code == 0, verified.output


@pytest.mark.parametrize(
    ("kind", "index", "reasons"),
    [
        (
            "dense",
            "short",
            ("'default' and 'short'", "14 chunks", "5 chunks", "brewing.md:1-3 ", "brewing.md:1-20"),
        ),
        ("dense", "othr", ("'othr'", "`other`")),
        ("bm25", "other", ("bm25 does not use",)),
    ],
)
def test_a_branch_of_another_index_is_refused_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, index: str, reasons: tuple[str, ...]
) -> None:
    project = make_project(tmp_path)
    monkeypatch.chdir(project)
    (project / "x.toml").write_text(TWO_INDEXES.format(method="rrf", kind=kind, index=index))
    done = invoke("run", "x.toml")
    assert done.exit_code == 2, done.output
    assert all(reason in " ".join(done.output.split()) for reason in reasons), done.output
    assert not (project / "reports").exists()
    system = System(name="both", branches=(Branch(kind="dense", index="other"),))
    with Workspace.open(project / "data") as workspace, pytest.raises(UsageError, match="'other'"):
        workspace.search("tea", system)


def test_passage_lines_have_the_name_of_the_flag_for_every_system(tmp_path: Path) -> None:
    text = (
        '[systems.local]\npassage_lines = 7\n[systems.own]\nfrom = "bm25"\nsweep = { passage_lines = [0, 9] }'
    )
    systems = named(read(tmp_path, text))
    assert [each.passages.lines for each in systems.values()] == [7, 0, 9]
    (tmp_path / "branchrank.toml").write_text("[benchmark]\npassage_lines = 5\n")
    assert named(read(tmp_path, "[systems.dense]"))["dense"].passages.lines == 5


#: The settings whose flags have another name.
RENAMED = [
    setting
    for part in PARTS
    for setting in settings_of(part)
    if setting.flag.removeprefix("--").replace("-", "_") != setting.name
]


@pytest.mark.parametrize("setting", RENAMED, ids=lambda setting: setting.flag)
def test_a_key_with_the_name_of_a_flag_is_refused_with_the_settings_name(
    tmp_path: Path, setting: Setting
) -> None:
    assert len(RENAMED) > 30
    key = setting.flag.removeprefix("--").replace("-", "_")
    wanted = f"{setting.flag} is `{setting.name}` in [{setting.section}]"
    path = tmp_path / "branchrank.toml"
    for text in (f"{key} = 1\n", f'[{setting.section}]\n"{key}" = 1\n'):
        if key in ("engine",) and not text.startswith("["):
            continue  # the name of a table
        path.write_text(text)
        with pytest.raises(UsageError) as refused:
            Workspace.open(tmp_path)
        assert wanted in str(refused.value)
    path.write_text("")
    with pytest.raises(UsageError) as refused:
        read(tmp_path, f'[systems.local]\n"{setting.flag[2:]}" = 1\n')
    assert wanted in str(refused.value)
