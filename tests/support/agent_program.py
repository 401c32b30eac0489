"""An agent that is a program: ``python agent_program.py MODE MCP_CONFIG USAGE_FILE QUESTION``.

It writes what it sees to the folder that the environment variable FACTS names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def note(name: str, text: str) -> None:
    Path(os.environ["FACTS"], name).write_text(text)


def fork_away() -> None:
    """Start a process with another session, another parent and an empty environment."""
    place = Path(os.environ["FACTS"], f"forked-{os.getpid()}")
    if not os.fork():
        os.setsid()
        subprocess.Popen(["/bin/sh", "-c", f"echo $$ > '{place}'; exec sleep 600"], env={})
        os._exit(0)
    while not (place.exists() and place.read_text()):
        time.sleep(0.01)


async def use_tools(config: Path, usage: Path, question: str) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    [server] = json.loads(config.read_text())["mcpServers"].values()
    refused = httpx2.post(server["url"], json={}, headers={"Authorization": "Bearer wrong"})
    facts = {
        "question": question,
        "tokenless": refused.status_code,
        "home": os.listdir(os.environ["HOME"]),
        "here": os.getcwd() == os.path.realpath(os.environ["HOME"]),
        "names": sorted(os.environ),
        "others": config.parent.stat().st_mode & 0o077,
        "token": server["headers"]["Authorization"].split()[1],
        "url": server["url"],
        "folder": str(config.parent),
        "input": sys.stdin.read(),
    }
    async with (
        httpx2.AsyncClient(headers=server["headers"]) as http,
        Client(streamable_http_client(server["url"], http_client=http)) as client,
    ):
        facts["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        leak = f"{os.environ['SECRET']} {facts['token']}"
        await client.call_tool("grep_search", {"query": leak})
        await client.call_tool("grep_search", {"query": "fuse", "limit": 0})
        found = await client.call_tool("grep_search", {"query": "fuse"})
        path, _, lines = found.content[0].text.split("]")[0].lstrip("[").rpartition(":")
        first, _, last = lines.partition("-")
        cited = {"path": path, "line_start": int(first), "line_end": int(last)}
        wrong = {**cited, "line_end": 9_999}
        refused = await client.call_tool("answer", {"citations": [wrong]})
        facts["refused"] = refused.is_error
        unread = {"path": "index.md", "line_start": 1, "line_end": 1}
        await client.call_tool("answer", {"citations": [cited, unread, wrong], "text": "Replace the fuse."})
    usage.write_text(json.dumps({"calls": 3, "prompt_tokens": 700, "completion_tokens": 50}))
    note(f"facts-{time.time_ns()}", json.dumps(facts))


def main(mode: str, config: str, usage: str, question: str) -> None:
    match mode:
        case "tools":
            import asyncio

            asyncio.run(use_tools(Path(config), Path(usage), question))
        case "prints":
            print("It is in guide/repair.rst:4, nowhere.md:1-2, index.md:1-900 and [index.md:1-3].")
        case "misreports":
            Path(usage).write_text('{"calls": "many"}')
            print("index.md:1-3")
        case "forks":
            fork_away()
            print("index.md:1-3")
        case "hangs":
            fork_away()
            print("index.md:1-3", flush=True)
            while Path(os.environ["FACTS"], "block").exists():
                time.sleep(0.05)
        case "floods":
            for _ in range(1024):
                print("x" * (1 << 20), end="")
        case "fails":
            print("index.md:1-3")
            sys.exit(f"first line\nthe key {os.environ['SECRET']} is wrong\n+------+")
        case "silent":
            print("I don't know.")


if __name__ == "__main__":
    main(*sys.argv[1:])
