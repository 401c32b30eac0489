"""The client, the gateway, caches, the ledger and secrets."""

from mutants.mutant import Mutant

GATEWAY = "branchrank/llm/gateway.py"
CLIENT = "branchrank/llm/client.py"
PARSING = "branchrank/llm/parsing.py"
TEST_GATEWAY = "tests/llm/test_gateway.py"
TEST_CLIENT = "tests/llm/test_client.py"
TEST_LEDGER = "tests/llm/test_ledger.py"
TEST_PARSING = "tests/llm/test_parsing.py"

MUTANTS = (
    Mutant(
        "call-key-without-the-model",
        "branchrank/llm/cassette.py",
        "    content = request.content(model)\n    return content | ",
        '    content = request.content("")\n    return content | ',
        ("tests/llm/test_cassette.py::test_the_cache_key_is_the_content_and_not_the_label",),
    ),
    Mutant(
        "damaged-cassette-rows-answer",
        "branchrank/llm/cassette.py",
        "if not all(isinstance(field, str) for field in row) or _checksum(row[:-1]) != row[-1]:",
        "if not all(isinstance(field, str) for field in row):",
        ("tests/llm/test_cassette.py::test_a_damaged_row_is_never_returned",),
    ),
    Mutant(
        "failures-are-cached",
        GATEWAY,
        'if self._cache is not None and recorded.outcome == "ok":',
        "if self._cache is not None:",
        (f"{TEST_GATEWAY}::test_failures_are_not_cached",),
    ),
    Mutant(
        "cache-hits-look-like-server-calls",
        GATEWAY,
        'reply = msgspec.structs.replace(found.reply, served_by="cache")',
        "reply = found.reply",
        (f"{TEST_GATEWAY}::test_cached_decisions_are_marked_as_cached",),
    ),
    Mutant(
        "equal-calls-under-way-all-sent",
        GATEWAY,
        "            with turn:\n                yield\n",
        "            yield\n",
        (f"{TEST_GATEWAY}::test_concurrent_equal_calls_reach_the_server_once",),
    ),
    Mutant(
        "replay-asks-the-server-nothing-and-says-nothing",
        GATEWAY,
        "return found or self._missing(request, self._cassette)",
        'return found or Recorded(reply=LLMReply(text="", usage=None), outcome="missing")  # type: ignore',
        (f"{TEST_GATEWAY}::test_a_missing_call_names_question_stage_and_difference",),
    ),
    Mutant(
        "temperature-one",
        CLIENT,
        '"temperature": 0,',
        '"temperature": 1,',
        (f"{TEST_CLIENT}::test_sends_a_deterministic_request_and_reads_the_reply",),
    ),
    Mutant(
        "seed-not-sent",
        CLIENT,
        '"seed": request.context.seed + request.context.repeat,',
        '"seed": 0,',
        (f"{TEST_CLIENT}::test_sends_a_deterministic_request_and_reads_the_reply",),
    ),
    Mutant(
        "rate-limits-not-retried",
        CLIENT,
        "_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 529}",
        "_RETRIED = {408, 409, 425, 500, 502, 503, 504, 529}",
        (f"{TEST_CLIENT}::test_temporary_errors_are_retried",),
    ),
    Mutant(
        "call-cap-off-by-one",
        "branchrank/llm/budget.py",
        "if self.max_calls and self.calls >= self.max_calls:",
        "if self.max_calls and self.calls > self.max_calls:",
        (f"{TEST_CLIENT}::test_caps_are_enforced_before_the_call",),
    ),
    Mutant(
        "unknown-ids-kept",
        PARSING,
        "named = list(dict.fromkeys(known[word] for word in words if word in known))",
        "named = list(dict.fromkeys(known.get(word, word) for word in words))",
        (f"{TEST_PARSING}::test_any_text_gives_known_labels_or_an_error",),
    ),
    Mutant(
        "log-odds-reversed",
        PARSING,
        "return yes - no",
        "return no - yes",
        (f"{TEST_PARSING}::test_yes_against_no_is_the_log_odds",),
    ),
    Mutant(
        "cached-calls-not-counted",
        "branchrank/llm/ledger.py",
        'cached_calls=sum(row.served_by != "server" for row in rows),',
        'cached_calls=sum(row.served_by == "server" for row in rows),',
        (f"{TEST_LEDGER}::test_totals_are_sums_of_rows",),
    ),
    Mutant(
        "cached-tokens-priced-twice",
        "branchrank/llm/ledger.py",
        "fresh = call.prompt_tokens - call.cached_tokens",
        "fresh = call.prompt_tokens",
        (f"{TEST_LEDGER}::test_cost_is_per_million_tokens_with_a_separate_price_for_cached_tokens",),
    ),
    Mutant(
        "key-sent-to-any-host",
        "branchrank/llm/secrets.py",
        "if bare.host == OPENAI_HOST and bare.https:",
        "if bare.https:",
        ("tests/llm/test_secrets.py::test_a_key_is_sent_to_its_own_host_only",),
    ),
    Mutant(
        "decisions-shared-by-endpoints",
        GATEWAY,
        "self._endpoint = endpoint",
        'self._endpoint = ""',
        ("tests/llm/test_two_endpoints.py::test_the_second_server_is_called_and_the_runs_differ[sqlite]",),
    ),
    Mutant(
        "redis-decisions-shared-by-endpoints",
        "branchrank/llm/decisions_redis.py",
        "        key = call_key(request, model, endpoint)\n",
        "        key = call_key(request, model)\n",
        ("tests/llm/test_decision_caches.py::test_stored_decisions_are_returned_after_reopening",),
    ),
    Mutant(
        "two-endpoints-in-one-recording",
        "branchrank/llm/session.py",
        "if other != client.endpoint.url:",
        "if not other:",
        ("tests/llm/test_two_endpoints.py::test_one_recording_for_two_endpoints_is_refused",),
    ),
    Mutant(
        "cached-calls-missing-from-the-line",
        "branchrank/systems/llm_opening.py",
        'sources = {"the cache": self.cached, "the cassette": self.replayed}',
        'sources = {"the cassette": self.replayed}',
        ("tests/llm/test_two_endpoints.py::test_a_search_reports_which_model_answered",),
    ),
    Mutant(
        "failures-of-a-resumed-recording-asked-again",
        "branchrank/llm/session.py",
        "self._failed |= self._cassette.failures(labels)",
        "self._cassette.failures(labels)",
        ("tests/llm/test_interrupted_recording.py::test_the_replay_has_the_bytes_of_the_resumed_recording",),
    ),
    Mutant(
        "unreachable-endpoint-never-refused",
        "branchrank/llm/session.py",
        "            if self._refuses:\n                raise\n",
        "",
        ("tests/cli/test_on_llm_failure.py::test_refuse_is_the_default_and_applies_before_any_work",),
    ),
    Mutant(
        "hits-of-a-fallback-unmarked",
        "branchrank/systems/engine.py",
        "        if trace.fallbacks:\n",
        "        if trace.fallbacks and False:\n",
        ("tests/cli/test_on_llm_failure.py::test_a_search_with_the_fallback_answers_and_is_marked",),
    ),
    Mutant(
        "model-without-an-endpoint-ignored",
        "branchrank/systems/builtin.py",
        "    if part.model and system.asks_llm and not part.no_llm:\n",
        "    if False:\n",
        ("tests/cli/test_on_llm_failure.py::test_a_model_without_an_endpoint_is_refused",),
    ),
    Mutant(
        "generation-never-stops",
        "branchrank/questions/generation.py",
        "(missing := count - len(verify.accepted)) > 0 and not streak.has_ended():",
        "(missing := count - len(verify.accepted)) > 0:",
        (
            "tests/llm/test_generation_commands.py::test_a_model_that_never_writes_a_question_ends_the_command",
        ),
    ),
    Mutant(
        "generation-asks-a-failing-server-on",
        "branchrank/questions/generation.py",
        "            self.failed += 1\n",
        "            self.unusable += 1\n",
        ("tests/llm/test_generation_commands.py::test_a_failing_server_is_tried_three_times",),
    ),
    Mutant(
        "generation-streak-never-ends",
        "branchrank/questions/generation.py",
        "        if answer.fault is None:\n            self.failed = self.unusable = 0\n",
        "        if answer.fault is None:\n            pass\n",
        ("tests/llm/test_generation_commands.py::test_repeated_failures_keep_the_generated_questions",),
    ),
    Mutant(
        "query-embeddings-not-cached",
        "branchrank/systems/searcher.py",
        "                    cache=cache,\n",
        "",
        ("tests/doors/test_caches.py::test_a_repeated_query_uses_the_caches",),
    ),
    Mutant(
        "restored-calls-lose-their-key",
        "branchrank/llm/cassette.py",
        "fields = (call.key, call.stage,",
        "fields = (call.key[::-1], call.stage,",
        ("tests/llm/test_cassette.py::test_calls_are_restored_without_their_prompts",),
    ),
)
