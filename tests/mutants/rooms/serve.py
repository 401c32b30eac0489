"""HTTP, MCP and the terminal UI."""

from mutants.mutant import Mutant

ACCESS = "branchrank/serve/access.py"
SERVICE = "branchrank/serve/service.py"
HTTP = "branchrank/serve/http.py"
TEST_ACCESS = "tests/serve/test_access.py"
TEST_HTTP = "tests/serve/test_http.py"
TEST_LOAD = "tests/serve/test_http_load.py::test_overload_gives_503_and_the_server_keeps_running"
TEST_MCP = "tests/serve/test_mcp.py"
TEST_TUI = "tests/serve/test_tui.py"

#: One engine behind every door: each of these gives one door an order of its own.
DOORS = "tests/doors/test_every_door_answers_alike.py"

MUTANTS = (
    Mutant(
        "terminal-ui-with-a-fusion-of-its-own",
        "branchrank/serve/tui/searching.py",
        "            return self.mode(mode).search(query, keywords).results\n",
        "            found = self.mode(mode).search(query, keywords).results\n"
        "            fused = lambda each: sum(1 / place.rank for place in each.hit.branches.values())\n"
        "            return sorted(found, key=fused, reverse=True)\n",
        (f"{DOORS}::test_the_terminal_ui",),
    ),
    Mutant(
        "mcp-sorts-by-the-distance",
        "branchrank/serve/mcp.py",
        "results=[_result(found) for found in answer.results]",
        "results=sorted(map(_result, answer.results), key=lambda each: each.distance or 0)",
        (f"{DOORS}::test_mcp",),
    ),
    Mutant(
        "any-host-answered",
        ACCESS,
        "return match is not None and match[1] in self.hosts",
        "return match is not None",
        (f"{TEST_ACCESS}::test_foreign_hosts_and_origins_are_refused",),
    ),
    Mutant(
        "any-token-accepted",
        ACCESS,
        'return scheme.lower() == "bearer" and same',
        'return scheme.lower() == "bearer"',
        (f"{TEST_ACCESS}::test_bad_tokens",),
    ),
    Mutant(
        "other-machines-need-no-token",
        ACCESS,
        "    if not loopback and not token:\n",
        "    if not host and not token:\n",
        (f"{TEST_ACCESS}::test_beyond_loopback_a_token_is_needed",),
    ),
    Mutant(
        "short-tokens-accepted",
        ACCESS,
        "TOKEN_LENGTH = 16",
        "TOKEN_LENGTH = 1",
        (f"{TEST_ACCESS}::test_a_weak_token_is_refused_and_not_repeated",),
    ),
    Mutant(
        "predictor-of-the-request-ignored",
        SERVICE,
        "name = predictor or self.predictors[0]",
        "name = self.predictors[0]",
        (f"{TEST_HTTP}::test_every_predictor_answers_as_the_direct_call",),
    ),
    Mutant(
        "last-predictor-is-the-default",
        SERVICE,
        "name = predictor or self.predictors[0]",
        "name = predictor or self.predictors[-1]",
        (f"{TEST_HTTP}::test_the_first_predictor_is_the_default",),
    ),
    Mutant(
        "errors-tell-paths-to-callers",
        HTTP,
        "        raise _failed() from None\n",
        '        raise Refusal(500, "failed", error.message) from None\n',
        (f"{TEST_HTTP}::test_a_failure_says_nothing_of_the_machine",),
    ),
    Mutant(
        "top-k-of-a-request-unbounded",
        HTTP,
        "TOP_K = 100",
        "TOP_K = 1000",
        (f"{TEST_HTTP}::test_a_wrong_request_is_refused",),
    ),
    Mutant(
        "forms-of-other-sites-accepted",
        HTTP,
        'if media_type != "application/json":',
        "if not media_type:",
        (f"{TEST_HTTP}::test_a_cross_site_form_post_is_refused",),
    ),
    Mutant(
        "mcp-reverses-the-results",
        "branchrank/serve/mcp.py",
        "Answer(results=[_result(found) for found in answer.results]",
        "Answer(results=[_result(found) for found in reversed(answer.results)]",
        (f"{TEST_MCP}::test_tools_work_in_process",),
    ),
    Mutant(
        "mcp-limit-ignored",
        "branchrank/serve/mcp.py",
        "semantic_query, exact_keywords, ranking=ranking, limit=limit, filters=filters",
        "semantic_query, exact_keywords, ranking=ranking, filters=filters",
        (
            "tests/acceptance/test_document_000_hybrid_retrieval.py::TestHybridSearchCombiningExactKeywordAndVectorRetrieval"
            "::test_hybrid_search_fusion_returns_the_top_10",
        ),
    ),
    Mutant(
        "status-line-not-wired",
        "branchrank/serve/tui/app.py",
        "        self._searches.listen(self._tell)\n",
        "",
        (f"{TEST_TUI}::test_every_mode_searches_and_reports",),
    ),
    Mutant(
        "preview-one-line-off",
        "branchrank/serve/tui/searching.py",
        "lines[number - first].strip()",
        "lines[number - first - 1].strip()",
        (f"{TEST_TUI}::test_a_preview_shows_the_matched_lines",),
    ),
    Mutant(
        "failed-searches-end-silently",
        "branchrank/serve/tui/app.py",
        '        self._say(str(error), "bold red")\n',
        "",
        (f"{TEST_TUI}::test_empty_results_and_failures_are_reported",),
    ),
    Mutant(
        "ten-hits-over-http-by-default",
        "branchrank/serve/http.py",
        "DEFAULT_TOP_K = 5",
        "DEFAULT_TOP_K = 10",
        ("tests/serve/test_http.py::test_five_hits_are_returned_by_default",),
    ),
    Mutant(
        "queue-without-an-end",
        "branchrank/serve/workers.py",
        "if self._taken >= self._capacity:",
        "if self._taken >= 100 * self._capacity:",
        (f"{TEST_HTTP}::test_a_full_queue_is_answered_at_once", TEST_LOAD),
    ),
    Mutant(
        "overload-is-a-failure",
        HTTP,
        '        raise busy("too many requests are waiting") from None\n',
        "        raise _failed() from None\n",
        (TEST_LOAD,),
    ),
    Mutant(
        "busy-without-retry-after",
        "branchrank/serve/guard.py",
        ', "busy", message, retry_after=str(RETRY_AFTER_S))',
        ', "busy", message)',
        (TEST_LOAD, f"{TEST_HTTP}::test_too_many_connections_are_answered_503"),
    ),
    Mutant(
        "a-failed-query-keeps-its-place",
        "branchrank/serve/workers.py",
        "    def _leave(self, _finished: Future[T] | None = None) -> None:\n",
        "    def _leave(self, _finished: Future[T] | None = None) -> None:\n"
        "        if _finished is not None and _finished.exception() is not None:\n"
        "            return\n",
        (f"{TEST_HTTP}::test_a_failed_query_frees_its_slot",),
    ),
    Mutant(
        "a-query-keeps-its-place",
        "branchrank/serve/workers.py",
        "        future.add_done_callback(self._leave)\n",
        "",
        (TEST_LOAD,),
    ),
    Mutant(
        "connections-without-limit",
        "branchrank/serve/server.py",
        "if len(server.server_state.connections) > CONNECTIONS:",
        "if not server.server_state.connections:",
        (f"{TEST_HTTP}::test_too_many_connections_are_answered_503",),
    ),
    Mutant(
        "box-for-keywords-without-effect",
        "branchrank/serve/tui/app.py",
        'exact = keywords.value if keywords.display else ""',
        'exact = ""',
        (f"{TEST_TUI}::test_the_keyword_box_is_shown_only_in_modes_that_use_it",),
    ),
)
