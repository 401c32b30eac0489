"""The built-in systems: their defaults, and the settings that are aliases of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from branchrank.core.errors import UsageError
from branchrank.core.settings import ALIASES, SYSTEM_PARTS, Setting, resolve, settings_of
from branchrank.core.spec import (
    Branch,
    Expand,
    Fuse,
    Group,
    LLMEndpoint,
    Passages,
    Rerank,
    Rescore,
    System,
    TreeSearch,
)
from branchrank.frontends.cli.options import given_flags, settings_options
from branchrank.search.systems.builtin import BUILTIN, GROUPS, builtin_systems

ENDPOINTS = {
    "hybrid": {"base_url": "http://127.0.0.1:1/v1", "model": "tiny"},
    "pageindex": {"base_url": "http://127.0.0.1:1/v1", "model": "tiny"},
    "late_interaction": {"base_url": "http://127.0.0.1:1/v1", "model": "tiny"},
    "agent": {"base_url": "http://127.0.0.1:1/v1", "model": "tiny"},
}
LLM = LLMEndpoint(base_url="http://127.0.0.1:1/v1", model="tiny")


def agent(name: str, *tools: str, fallback: str = "shown") -> System:
    options = {
        "tools": list(tools),
        "max_steps": 8,
        "context_tokens": 16_000,
        "prompt": 1,
        "tool_calls": "native",
        "fallback": fallback,
    }
    branch = Branch(kind="agent", unit="span", top_n=10, options=options)
    return System(name=name, branches=(branch,), fuse=Fuse(method="none"), llm=LLM)


#: What each predictor was made of when its published figures were measured.
DEFAULTS = {
    "local": System(
        name="local",
        branches=(Branch(kind="dense", top_n=40), Branch(kind="bm25", top_n=80)),
        fuse=Fuse(k=60),
    ),
    "pageindex": System(
        name="pageindex",
        branches=(
            Branch(
                kind="tree",
                unit="node",
                tree=TreeSearch(
                    beam=4,
                    depth=12,
                    max_steps=12,
                    step_candidates=24,
                    final_candidates=24,
                    steps_by="llm",
                    final_by="llm",
                ),
            ),
        ),
        llm=LLM,
    ),
    "hybrid": System(
        name="hybrid",
        branches=(
            Branch(kind="dense", top_n=40, expand=Expand(depth=1, siblings=2, file_roots=5)),
            Branch(kind="bm25", unit="node", top_n=80),
        ),
        fuse=Fuse(k=60, cap=30),
        rerank=Rerank(
            method="llm", candidate_order="shuffled", fusion_weight=1.0, context_tokens=8000, cross_encoder=""
        ),
        passages=Passages(order="rrf"),
        llm=LLM,
    ),
    "grep": System(
        name="grep",
        branches=(Branch(kind="grep"), Branch(kind="dense", top_n=40, threshold="calibrated")),
        fuse=Fuse(k=60),
    ),
    "qdrant": System(
        name="qdrant",
        branches=(
            Branch(kind="qdrant-dense", doubled=True, weight=0.5),
            Branch(kind="qdrant-sparse", doubled=True, weight=0.5),
        ),
        fuse=Fuse(k=60),
    ),
    "sqlite": System(
        name="sqlite",
        branches=(
            Branch(kind="fts5", top_n=80, weight=1.0 - 0.6),
            Branch(kind="dense", top_n=80, weight=0.6),
        ),
        fuse=Fuse(k=60, unit_interval=True),
        group=Group(by="document", aggregate="max", members=3),
    ),
    "late-interaction": System(
        name="late-interaction",
        branches=(Branch(kind="dense", top_n=40), Branch(kind="bm25", top_n=80)),
        fuse=Fuse(method="score", cap=30),
        rescore=Rescore(method="maxsim", candidates=30, weight=1.0),
        rerank=Rerank(
            method="llm", candidate_order="shuffled", fusion_weight=1.0, context_tokens=8000, cross_encoder=""
        ),
        passages=Passages(lines=25),
        llm=LLM,
    ),
    "agent": agent("agent", "grep_search", "vector_search", "hybrid_search", "read_file"),
    "agent-grep": agent("agent-grep", "grep_search", "read_file"),
    "agent-vector": agent("agent-vector", "vector_search", "read_file"),
    "agent-memory": agent("agent-memory", fallback="none"),
    "bm25": System(name="bm25", branches=(Branch(kind="bm25", top_n=80),)),
    "dense": System(name="dense", branches=(Branch(kind="dense", top_n=40),)),
}


def built(name: str, toml: Mapping[str, Any] | None = None, **layers: Any) -> System:
    """A predictor under some settings; the environment of the test is left out."""
    return BUILTIN[name](resolve(toml=toml or {}, **{"environment": {}, **layers}))


@pytest.mark.parametrize("name", BUILTIN)
def test_the_default_of_a_predictor_has_not_changed(name: str) -> None:
    assert built(name, ENDPOINTS) == DEFAULTS[name]


@pytest.mark.parametrize("name", ["local", "hybrid", "pageindex", "late-interaction", "bm25", "dense"])
def test_every_predictor_of_sections_and_chunks_returns_what_is_asked_for(name: str) -> None:
    assert built(name, {"benchmark": {"returns": "section"}}).returns == "section"


def fields(system: System) -> dict[str, Any]:
    """Every field of a system by its address."""

    def below(value: Any, address: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, tuple):
            for branch in value:
                yield from below(branch, f"{address}.{branch.kind}")
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                yield from below(getattr(value, name), f"{address}.{name}" if address else name)
        else:
            yield address, value

    return dict(below(system, ""))


def another(setting: Setting) -> Any:
    """An allowed value that isn't the default."""
    if setting.choices:
        return next(choice for choice in setting.choices if choice != setting.default)
    if setting.type is str:
        return "http://127.0.0.1:2/other"
    if setting.type is int:
        return setting.default + 1
    return setting.default / 2 + 0.125


def by_flags(words: list[str]) -> dict[str, Any]:
    """What the flags of a command give."""

    @click.command()
    @settings_options(*(part.section for part in SYSTEM_PARTS))
    def command() -> None:
        found.update(given_flags())

    found: dict[str, Any] = {}
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    return found


ALIAS = [
    pytest.param(part, setting, id=f"{setting.section}.{setting.name}")
    for part in SYSTEM_PARTS
    for setting in settings_of(part)
    if setting.name in part.aliases
]


@pytest.mark.parametrize("layer", ["toml", "environment", "flag"])
@pytest.mark.parametrize(("part", "setting"), ALIAS)
def test_an_alias_sets_its_address_and_nothing_else(part: Any, setting: Setting, layer: str) -> None:
    value = another(setting)
    section, name = setting.section, part.system.name
    before = built(name, ENDPOINTS)
    if layer == "toml":
        table = {**ENDPOINTS.get(section, {}), setting.name: value}
        after = built(name, {**ENDPOINTS, section: table})
    elif layer == "environment":
        after = built(name, ENDPOINTS, environment={setting.variable: str(value)})
    else:
        after = built(name, ENDPOINTS, flags=by_flags([f"{setting.flag}={value}"]))
    changed = {address: new for address, new in fields(after).items() if fields(before)[address] != new}
    assert changed == {part.aliases[setting.name]: value}


def test_a_setting_has_one_address_in_all_parts() -> None:
    for part in SYSTEM_PARTS:
        for name, address in part.aliases.items():
            assert ALIASES[name] == address, (part.section, name)


@pytest.mark.parametrize("name", ["hybrid", "pageindex", "late-interaction"])
def test_an_endpoint_turns_on_the_llm_and_no_llm_turns_it_off(name: str) -> None:
    section = name.replace("-", "_")
    off = built(name)
    assert not off.asks_llm
    assert off.llm_label == "none"
    on = built(name, ENDPOINTS)
    assert on.asks_llm
    assert on.llm_label == "tiny"
    switched = built(name, {section: {**ENDPOINTS[section], "no_llm": True}})
    assert msgspec.structs.replace(switched, llm=LLMEndpoint()) == off


def test_a_cross_encoder_reranks_without_an_llm() -> None:
    table = {"reranker": "cross-encoder", "cross_encoder": "models/tiny"}
    for more in ({}, {"no_llm": True}, ENDPOINTS["hybrid"]):
        system = built("hybrid", {"hybrid": {**table, **more}})
        assert (system.rerank.method, system.rerank.cross_encoder) == ("cross-encoder", "models/tiny")
        assert not system.asks_llm


@pytest.mark.parametrize(
    ("no_llm", "final_only", "steps", "final"),
    [
        (False, False, "llm", "llm"),
        (False, True, "lexical", "llm"),
        (True, False, "lexical", "lexical"),
        (True, True, "lexical", "lexical"),
    ],
)
def test_flags_select_lexical_or_llm_tree_search(
    no_llm: bool, final_only: bool, steps: str, final: str
) -> None:
    table = {**ENDPOINTS["pageindex"], "no_llm": no_llm, "llm_final_only": final_only}
    (branch,) = built("pageindex", {"pageindex": table}).branches
    assert branch.tree is not None
    assert (branch.tree.steps_by, branch.tree.final_by) == (steps, final)


def test_the_baselines_are_in_no_group() -> None:
    settings = resolve(environment={})
    assert [system.name for system in builtin_systems(("bm25", "dense"), settings)] == ["bm25", "dense"]
    assert not {"bm25", "dense"} & {member for group in GROUPS.values() for member in group}


@pytest.mark.parametrize("name", ["local.rrfk", "lokal.rrf_k", "local"])
def test_an_unknown_name_given_by_the_caller_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(flags={name: 3}, environment={})
    assert f"'{name}'; did you mean `local.rrf_k`?" in caught.value.message
