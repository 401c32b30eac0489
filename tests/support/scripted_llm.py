"""A scripted OpenAI-compatible server over real HTTP on the loopback interface.

``script`` turns each chat request (with its number, from 1) into an action: what to send back, or how to
misbehave. Every request is kept in ``requests``. The call that checks an endpoint is not a request of a
stage: it is kept in ``checks``, and ``check`` answers it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from support.ports import free_port

from branchrank.search.llm.client import CHECK

CHECKED = list(msgspec.to_builtins(CHECK.messages))
_ENTRY = re.compile(r"^\[(s\d+)\] (.*)$(?:\n^  (.*)$)?", re.MULTILINE)


@dataclass(frozen=True)
class Chat:
    """One chat request as the server got it. ``entries`` maps each label to its heading and body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] or "" for message in self.body["messages"])

    @property
    def entries(self) -> dict[str, str]:
        section = self.prompt.partition("<sections>\n")[2].partition("\n</sections>")[0]
        return {label: f"{heading}\n{body}" for label, heading, body in _ENTRY.findall(section)}

    @property
    def format(self) -> str:
        return "tools" if "tools" in self.body else self.body.get("response_format", {}).get("type", "plain")


@dataclass(frozen=True)
class Action:
    """What the server does with one request. ``missing`` bytes are announced and never sent."""

    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    missing: int = 0
    drip_s: float = 0.0
    silent_s: float = 0.0


Script = Callable[[Chat, int], Action]

USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}


def say(text: str | None, *, usage: dict[str, Any] | None = USAGE, **extra: Any) -> Action:
    """A well-formed completion with this text."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": extra.pop("refusal", None)},
        "finish_reason": extra.pop("finish_reason", "stop"),
    }
    if "logprobs" in extra:
        top = [{"token": token, "logprob": value} for token, value in extra.pop("logprobs").items()]
        choice["logprobs"] = {"content": [{"token": text, "logprob": 0.0, "top_logprobs": top}]}
    answer: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "scripted-1"}
    answer["choices"] = extra.pop("choices", [choice])
    if usage is not None:
        answer["usage"] = usage
    return Action(content=json.dumps(answer | extra).encode())


def ids(names: Iterable[str], **extra: Any) -> Action:
    return say(json.dumps({"ids": list(names)}), **extra)


def fail(status: int, message: str = "scripted", **headers: str) -> Action:
    body = json.dumps({"error": {"message": message, "type": "scripted"}}).encode()
    return Action(status=status, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


def oracle(is_gold: Callable[[str], bool]) -> Script:
    """Names the entries that are gold, and nothing else."""
    return lambda chat, number: ids(label for label, text in chat.entries.items() if is_gold(text))


def reply(message: dict[str, Any], finish_reason: str = "stop") -> Action:
    """A completion with this message of the assistant, whatever it contains."""
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish_reason}
    return say(None, choices=[choice])


def tool_call(name: object, arguments: object, identifier: object = "c1") -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(*calls: tuple[str, object], content: str | None = None) -> Action:
    """A completion with tool calls, each a name and its arguments (as JSON, or as what becomes JSON)."""
    made = [
        tool_call(name, given if isinstance(given, str) else json.dumps(given), f"c{number}")
        for number, (name, given) in enumerate(calls, 1)
    ]
    return reply({"content": content, "tool_calls": made}, "tool_calls")


def first_shown(chat: Chat, number: int) -> Action:
    """Names the entries in the order in which they were shown."""
    return ids(chat.entries)


class ScriptedLLM:
    """Serves ``script`` on a free port until closed; ``base_url`` is the OpenAI base URL."""

    def __init__(self, script: Script, models: tuple[str, ...] = ("scripted",)) -> None:
        self.script = script
        self.models = models
        #: Sent instead of the list of models.
        self.models_action: Action | None = None
        #: Answers the call that checks the endpoint.
        self.check: Script = first_shown
        self.checks: list[Chat] = []
        self.requests: list[Chat] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                listed = {"object": "list", "data": [{"id": m, "object": "model"} for m in outer.models]}
                self._send(outer.models_action or Action(content=json.dumps(listed).encode()))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                chat = Chat(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                checks = chat.body["messages"] == CHECKED
                kept, script = (outer.checks, outer.check) if checks else (outer.requests, outer.script)
                with outer._lock:
                    kept.append(chat)
                    number = len(kept)
                self._send(script(chat, number))

            def _send(self, action: Action) -> None:
                if action.silent_s:
                    outer._stopping.wait(action.silent_s)
                if action.drop:
                    self.close_connection = True
                    self.connection.shutdown(2)
                    return
                self.send_response(action.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(action.content) + action.missing))
                for name, value in action.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if not action.drip_s:
                    self.wfile.write(action.content)
                    self.close_connection = action.missing > 0
                    return
                for byte in action.content:
                    if outer._stopping.wait(action.drip_s):
                        return
                    self.wfile.write(bytes([byte]))

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                """A client that hangs up is part of the script."""

        self._server = Server(("127.0.0.1", free_port()), Handler)
        self.port = self._server.server_port
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> ScriptedLLM:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that another thread or process does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.005)
