"""A program of the user as an agent: BranchRank starts it for each question, and reads what it cites.

1. The words of the command are passed as they are, without a shell. In each word, ``{question}``,
   ``{mcp_config}`` and ``{usage_file}`` are replaced once. The first word is the program.
2. The program starts in an empty temporary folder, which is also its ``HOME``, with few environment variables
   and those that ``--pass-env`` names. The folder above has the file ``{mcp_config}``, which names a private
   MCP server with the search tools and ``answer`` (:mod:`branchrank.search.agent.tool_server`).
3. Without a call of ``answer``, the existing lines that the program prints as ``path:first-last`` are its
   citations, the best first.
4. A program that reaches its time limit, prints too much, has another exit code than 0, or cites nothing
   has failed. In each case, all its processes are ended (:mod:`branchrank.runs.bench.guardian`).
5. ``{usage_file}`` is ``{"calls": N, "prompt_tokens": N, "completion_tokens": N}``, which the program may
   write.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
from msgspec import Meta

from branchrank.core.errors import ChildError, UsageError, or_else
from branchrank.core.io.files import NOT_JSON, digest_file, read_beneath
from branchrank.core.io.printable import Redactor, encodable
from branchrank.core.records import NOT_REPORTED, AgentLog, Count, LLMUse, Question, Record
from branchrank.runs.bench import guardian
from branchrank.runs.bench.predictors import OutsideAnswer, Untraced, query_of
from branchrank.runs.directory import COMMAND
from branchrank.search.agent.tool_session import RecordedTools

DEFAULT_TIMEOUT_S = 300.0
#: A program that prints more is ended.
MOST_OUTPUT = 16 << 20
PLACEHOLDERS = ("question", "mcp_config", "usage_file")
#: The environment variables that every program gets, if they are set.
_PASSED = ("PATH", "LANG", "LC_ALL", "TZ")
_PLACE = re.compile(r"\{(\w+)\}")
_ORIGIN = re.compile(rf"{COMMAND}(?:timeout_s=([\d.e+]+):)?(.*)", re.DOTALL)
_MOST_USAGE = 4_096
_REASON = 200
_ENDS_WITHIN_S = 10.0


class AgentCommand(Record, frozen=True, kw_only=True):
    """The words of a command, and the seconds that it has for one question."""

    command: tuple[str, ...]
    timeout_s: Annotated[float, Meta(gt=0, le=86_400)] = DEFAULT_TIMEOUT_S

    @classmethod
    def of(cls, origin: str) -> AgentCommand:
        """Read the :attr:`origin` of a run's record. Raises :class:`UsageError` if it is not a command."""
        found = _ORIGIN.fullmatch(origin)
        try:
            words = shlex.split(found[2]) if found else []
            seconds = found[1] if found and found[1] else DEFAULT_TIMEOUT_S
            return msgspec.convert({"command": words, "timeout_s": seconds}, cls, strict=False)
        except ValueError as error:
            raise UsageError(f"{origin!r} is not a command: {error}") from None

    @property
    def origin(self) -> str:
        """The command as a run's record names it."""
        return f"{COMMAND}timeout_s={self.timeout_s:g}:{shlex.join(self.command)}"

    def program(self) -> str:
        """Check the words, and return the path of the program. Raises :class:`UsageError`."""
        if not self.command or _PLACE.search(self.command[0]):
            raise UsageError('command needs the name of a program first: ["my-agent", "{question}"]')
        named = [name for word in self.command for name in _PLACE.findall(word)]
        for name in named:
            if name not in PLACEHOLDERS:
                near = or_else(name, PLACEHOLDERS)
                raise UsageError(f"command has the unknown placeholder {{{name}}}{near}")
        if "question" not in named:
            raise UsageError('command has no word with {question}: ["my-agent", "{question}"]')
        found = shutil.which(self.command[0])
        if found is None:
            where = f"on PATH, or relative to {os.getcwd()}"
            raise UsageError(
                f"there is no program {self.command[0]!r}", remedy=f"write the name of one {where}"
            )
        return os.path.abspath(found)


class CommandFailure(ChildError):
    """Error for a question that a program did not answer. ``agent`` has the calls of tools."""

    def __init__(self, message: str, agent: AgentLog) -> None:
        super().__init__(message)
        self.agent = agent


class _Usage(Record, frozen=True, kw_only=True):
    calls: Annotated[int, Meta(ge=0, le=10_000)]
    prompt_tokens: Count
    completion_tokens: Count


class CommandPredictor(Untraced):
    """The predictor that starts ``command`` for each question, with the tools of the index ``index``.

    Raises :class:`UsageError` if the command can't be started, and :class:`MissingDependencyError` without
    the MCP SDK.
    """

    def __init__(self, command: AgentCommand, name: str, llm: str, index: str) -> None:
        import branchrank.search.agent.tool_server  # noqa: F401 - raises before any work

        self.command = command
        self.origin = command.origin
        self.name, self.llm, self.index = name or self.origin, llm or NOT_REPORTED, index
        self.program = command.program()
        self.digest = digest_file(Path(self.program))

    def ask(self, question: Question, k: int) -> OutsideAnswer:
        """Start the program, and return the passages that it cites. Raises :class:`CommandFailure`."""
        from branchrank.search.agent.tool_server import serving

        passed = {name: os.environ[name] for name in self.pass_env if name in os.environ}
        clean = Redactor(passed.values())
        tools = RecordedTools.of(self.engine, query_of(question), clean)
        with (
            TemporaryDirectory(prefix="branchrank-agent-", ignore_cleanup_errors=True) as name,
            serving(tools) as (url, token),
        ):
            clean.learn([token])
            folder = Path(name)
            config, home = folder / "mcp.json", folder / "home"
            server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
            config.write_bytes(msgspec.json.encode({"mcpServers": {"branchrank": server}}))
            home.mkdir()
            values = {
                "question": encodable(question.question).replace("\0", " "),
                "mcp_config": str(config),
                "usage_file": str(folder / "usage.json"),
            }
            words = [_PLACE.sub(lambda found: values[found[1]], word) for word in self.command.command[1:]]
            own = {each: os.environ[each] for each in _PASSED if each in os.environ}
            own |= {"HOME": str(home), "TMPDIR": str(home)} | passed
            printed, failure = run_guarded([self.program, *words], folder, home, own, self.command.timeout_s)
            usage, remark = self._usage(folder)
        session = tools.session
        if tools.cited is None:
            tools.cited = session.cited_in(printed)
        log = session.log(tools.cited)
        if failure or not tools.cited:
            shown = clean(f"{os.path.basename(self.program)} {failure or 'cited nothing'}")
            raise CommandFailure(shown, msgspec.structs.replace(log, answered=False))
        return OutsideAnswer(self.cited(tools, k), usage, msgspec.structs.replace(log, remark=remark))

    def _usage(self, folder: Path) -> tuple[list[LLMUse], str]:
        """Return the LLM calls in the usage file, and a remark about a file that can't be used."""
        if not any("{usage_file}" in word for word in self.command.command):
            return [], ""
        try:
            usage = msgspec.json.decode(read_beneath(folder, "usage.json", _MOST_USAGE), type=_Usage)
        except (OSError, *NOT_JSON) as error:
            reason = getattr(error, "strerror", "") or str(error)  # the path would differ in each run
            return [], f"LLM use is not reported: usage file: {reason[:_REASON]}"
        if not usage.calls and usage.prompt_tokens + usage.completion_tokens:
            return [], "LLM use is not reported: usage file: tokens without calls"
        model = "" if self.llm == NOT_REPORTED else self.llm
        spent = [(usage.prompt_tokens, usage.completion_tokens), *[(0, 0)] * (usage.calls - 1)]
        return [
            LLMUse(model=model, prompt_tokens=prompt, completion_tokens=completion)
            for prompt, completion in spent[: usage.calls]
        ], ""


def run_guarded(
    words: Sequence[str], folder: Path, home: Path, environment: Mapping[str, str], timeout_s: float
) -> tuple[str, str]:
    """Run a program in ``home`` until all its processes have ended.

    Returns what it has printed, and why it has failed, or an empty string. The guardian removes ``folder`` if
    this process is killed.
    """
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, str(folder), *words],
            cwd=home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:  # such as a question of more than 128 KiB
        return "", f"can't be started: {error.strerror}"
    try:
        return _read(process, timeout_s)
    finally:
        _end(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_WITHIN_S)
        process.kill()
        with process:  # closes the streams
            pass


def _end(process: subprocess.Popen[bytes]) -> None:
    """Tell the guardian to end the program, unless it has ended."""
    with suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), b".")  # type: ignore[union-attr]


def _read(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[str, str]:
    """Read what a program prints until its processes have ended. At a limit, they are ended."""
    printed = {process.stdout: bytearray(), process.stderr: bytearray()}
    deadline, failure = time.monotonic() + timeout_s, ""
    with selectors.DefaultSelector() as open_streams:
        for stream in printed:
            assert stream is not None
            open_streams.register(stream, selectors.EVENT_READ)
        while open_streams.get_map():
            left = deadline - time.monotonic()
            if failure and left <= 0:  # a process that can't be ended has kept a stream
                break
            if not failure and (left <= 0 or sum(map(len, printed.values())) > MOST_OUTPUT):
                failure = f"printed more than {MOST_OUTPUT >> 20} MiB"
                if left <= 0:
                    failure = f"did not end within {timeout_s:g} seconds"
                deadline, left = time.monotonic() + _ENDS_WITHIN_S, _ENDS_WITHIN_S
                _end(process)
            for key, _ in open_streams.select(left):
                piece = os.read(key.fd, 65_536)
                if not piece:
                    open_streams.unregister(key.fileobj)
                elif not failure:
                    printed[key.fileobj] += piece  # type: ignore[index]
    output, errors = (bytes(each).decode(errors="replace") for each in printed.values())
    if not failure and (code := process.wait()):
        told = [line.strip() for line in errors.splitlines() if any(map(str.isalnum, line))]
        last = told[-1][:_REASON] if told else ""
        failure = f"ended with exit code {code}" + (f": {last}" if last else "")
    return output, failure
