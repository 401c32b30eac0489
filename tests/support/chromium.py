"""A real Chromium, driven over the DevTools protocol through a pipe: no port, no network, no driver."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.needs import need

FONTS = Path("/usr/share/fonts")
#: Widths with and without dark mode.
LOOKS = ((1400, False), (400, True), (1400, True), (400, False))

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def looks(*pages: str, full: tuple[str, ...] = ()) -> list[Any]:
    """Every page in each look; ``make test`` has each page once, wide or dark, and none of ``full``."""
    return [
        pytest.param(
            page,
            *look,
            id=f"{page}-{look[0]}-{'dark' if look[1] else 'light'}",
            marks=() if number < len(pages) and place == number % 2 else pytest.mark.full,
        )
        for number, page in enumerate((*pages, *full))
        for place, look in enumerate(LOOKS)
    ]


#: What the browser answers when the page of a script went away before its end.
LEFT = ("navigated or closed", "context was destroyed", "Cannot find")


class PageLeft(Exception):
    """Another page took the place of the one that ran a script."""


class Chromium:
    """One page of one browser. ``console`` collects errors, ``requests`` the URLs that it asked for."""

    def __init__(self, profile: Path) -> None:
        browser = need("chromium", "chromium", "chromium-browser")
        # The widths of the layouts are those of these fonts, which macOS has under other names.
        need("fonts-liberation", found=sys.platform == "darwin" or any(FONTS.rglob("Liberation*")))
        self._ids = itertools.count(1)
        self._buffer = b""
        self.console: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        #: The pages that were loaded; a page that was left may still say so while the next one loads.
        self._loaded: set[str] = set()
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def wire() -> None:
            # 3 and 4 may themselves be among the pipe's ends, so both are copied out of the way first.
            reading, writing = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            [browser, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=wire,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        targets = self._send("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session: str | None = None
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send("Page.setLifecycleEventsEnabled", enabled=True)
        # Without it a page that has no window gets no focus events.
        self._send("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._in)
        os.close(self._out)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                error = answer.get("error", {}).get("message", "")
                if any(left in error for left in LEFT):
                    raise PageLeft(error)
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "the browser is gone"
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.console.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.lifecycleEvent" and parameters["name"] == "load":
            self._loaded.add(parameters["loaderId"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.visit(path.resolve().as_uri())

    def visit(self, url: str) -> None:
        """Load a URL and wait until it is there."""
        loader = self._send("Page.navigate", url=url).get("loaderId")  # none within a page
        while loader and loader not in self._loaded:
            self._receive()

    def wait(self, condition: str, seconds: float = 20.0) -> None:
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        # While another page loads, its elements do not exist yet, and the page that asks may go away.
        script = f"(() => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }})()"
        while True:
            with contextlib.suppress(PageLeft):
                if self.run(script):
                    return
            assert time.monotonic() < end, f"never true: {condition}; {self.console}"
            time.sleep(0.02)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key of the keyboard, such as ``Enter`` or ``y``."""
        code = {"Enter": 13, "Tab": 9, " ": 32, "ArrowUp": 38, "ArrowDown": 40, "Escape": 27}.get(key)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        pressed = {
            "key": key,
            "windowsVirtualKeyCode": code or ord(key.upper()),
            "modifiers": 8 if shift else 0,
        }
        self._send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **pressed)
        self._send("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def place(self, element: str) -> tuple[float, float]:
        """The middle of an element (an expression), which is scrolled into view, once it stays there."""
        box = self.run(
            f"(async () => {{ const found = {element}; "
            "found.scrollIntoView({ block: 'center', behavior: 'instant' }); "
            "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); "
            "const box = found.getBoundingClientRect(); "
            "return [box.left + Math.min(box.width, innerWidth) / 2, box.top + box.height / 2]; })()"
        )
        return box[0], box[1]

    def mouse(self, kind: str, at: tuple[float, float]) -> None:
        """Send ``mousePressed``, ``mouseMoved`` or ``mouseReleased`` with the left button."""
        point = {"x": at[0], "y": at[1], "button": "left", "buttons": int(kind != "mouseReleased")}
        self._send("Input.dispatchMouseEvent", type=kind, clickCount=1, **point)

    def click(self, element: str) -> None:
        """Click an element (an expression) with the mouse."""
        at = self.place(element)
        self.mouse("mousePressed", at)
        self.mouse("mouseReleased", at)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self._send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def look(self, width: int, *, dark: bool = False, medium: str = "") -> None:
        """Give the page a width and a color scheme, or a medium such as print."""
        self._send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def screenshot(self, path: Path) -> None:
        """The part of the page in view as PNG."""
        path.write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def tree(self) -> list[dict[str, Any]]:
        """The page as a screen reader meets it: nodes with role and name."""
        return [
            {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "")}
            for node in self._send("Accessibility.getFullAXTree")["nodes"]
            if not node.get("ignored") and "role" in node
        ]
