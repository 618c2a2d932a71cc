"""A headless Chromium driven over a pipe, for tests of pages; nothing to install but the browser."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One tab."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self.browser = browser
        self.session = session

    def call(self, method: str, **params: Any) -> Any:
        """One command of the DevTools protocol."""
        return self.browser.call(method, params, self.session)

    def open(
        self, path: Path, width: int = 1200, height: int = 900, dark: bool = False, touch: bool = False
    ) -> None:
        """Load a file and wait until it is drawn."""
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Network.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=touch,
        )
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=theme)
        self.browser.events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        self.browser.wait("Page.loadEventFired")
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def press(self, key: str, shift: bool = False) -> None:
        """A key, as the keyboard would send it."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        codes = {
            "Enter": 13,
            "Tab": 9,
            "ArrowRight": 39,
            "ArrowLeft": 37,
            "Escape": 27,
            "Home": 36,
            "End": 35,
        }
        code = codes.get(key, ord(key) if len(key) == 1 else 0)
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path: Path, full: bool = False) -> None:
        """A picture of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(shot["data"]))

    def problems(self) -> list[Any]:
        """Exceptions, console errors, requests other than the file itself and inlined data."""
        found: list[Any] = []
        for event in self.browser.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown" or (
                event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning")
            ):
                found.append(params)
            elif event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(url)
            elif event["method"] == "Page.javascriptDialogOpening":
                found.append(params["message"])
        return found


class Browser:
    """A running browser."""

    def __init__(self, process: subprocess.Popen[bytes], into: int, out: int) -> None:
        self.process = process
        self.events: list[Any] = []
        self._into = into
        self._out = out
        self._numbers = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._rest = b""

    def call(self, method: str, params: dict[str, Any], session: str | None = None) -> Any:
        """Send a command and wait for its answer."""
        number = next(self._numbers)
        message = {
            "id": number,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._into, data) :]
        self._read_until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        assert "error" not in answer, answer
        return answer["result"]

    def wait(self, method: str) -> None:
        """Until an event has come."""
        self._read_until(lambda: any(event["method"] == method for event in self.events))

    def _read_until(self, done: Any, limit: float = 120.0) -> None:
        end = time.monotonic() + limit
        while not done():
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._out, 1 << 20)
            assert data, "the browser has gone"
            *messages, self._rest = (self._rest + data).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]] = message
                else:
                    self.events.append(message)

    def page(self) -> Page:
        """A new tab."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return Page(
            self, self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        )


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, ended on leaving."""
    assert CHROMIUM is not None
    read_by_it, into = os.pipe()
    out, written_by_it = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

        def connect() -> None:
            # The protocol's pipe is file descriptors 3 and 4; first out of the way of each other.
            one, two = os.dup(read_by_it), os.dup(written_by_it)
            os.dup2(one, 3)
            os.dup2(two, 4)

        process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={folder}"],
            preexec_fn=connect,  # noqa: PLW1509 - the tests have no other threads
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_by_it)
        os.close(written_by_it)
        try:
            yield Browser(process, into, out)
        finally:
            process.terminate()
            process.wait(timeout=30)
            os.close(into)
            os.close(out)
