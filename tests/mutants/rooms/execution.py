"""Tasks over shards: order, errors, killed workers, threads, and what a run of several processes keeps."""

from mutants.mutant import Mutant

POOL = "branchrank/execution/pool.py"
HANDLER = "branchrank/execution/handler.py"
OPENING = "branchrank/execution/opening.py"
CONTRACT = "tests/execution/test_executors.py"
COMMANDS = "tests/execution/test_distributed_commands.py"

MUTANTS = (
    Mutant(
        "results-as-they-come",
        POOL,
        "            while number not in self.outcomes:\n                self._advance(number)\n",
        "            while not self.outcomes:\n                self._advance(number)\n"
        "            number = next(iter(self.outcomes))\n",
        (f"{CONTRACT}::test_results_come_in_the_order_of_the_shards",),
    ),
    Mutant(
        "the-shard-of-a-killed-worker-is-forgotten",
        POOL,
        "        self.again.append(number)\n",
        "        self.outcomes[number] = Done([])\n",
        (f"{CONTRACT}::test_the_work_of_a_killed_worker_is_done_again",),
    ),
    Mutant(
        "a-worker-opens-its-task-for-each-shard",
        HANDLER,
        "            if self._work is None:\n",
        "            if self._work is None or shard:\n",
        (f"{CONTRACT}::test_a_worker_opens_a_task_once",),
    ),
    Mutant(
        "workers-keep-their-own-thread-count",
        HANDLER,
        "        use_threads(setup.threads)\n",
        "        use_threads(1)\n",
        (f"{CONTRACT}::test_every_worker_has_the_thread_count_of_the_settings",),
    ),
    Mutant(
        "an-error-loses-its-type",
        "branchrank/errors.py",
        "        return _unpickled, (type(self), self.args, self.__dict__)\n",
        "        return _unpickled, (BranchRankError, self.args, self.__dict__)\n",
        (f"{CONTRACT}::test_an_error_keeps_its_type_and_its_place",),
    ),
    Mutant(
        "work-of-workers-is-not-counted",
        "branchrank/bench/quality_pass.py",
        "        work.computed.update(answered.computed)\n",
        "",
        (f"{COMMANDS}::test_jobs_give_the_files_of_one_process",),
    ),
    Mutant(
        "a-file-names-a-cluster-elsewhere",
        OPENING,
        "and not _is_loopback(address):",
        "and not address:",
        (f"{COMMANDS}::test_a_file_cannot_name_a_remote_cluster",),
    ),
    Mutant(
        "caps-count-each-worker",
        OPENING,
        "    if asks_llm and is_distributed(settings):\n",
        "    if asks_llm and not settings:\n",
        (f"{COMMANDS}::test_flags_that_count_calls_in_one_process_are_refused",),
    ),
)
