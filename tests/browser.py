"""A browser as a test needs it: Chromium without a window, over its own debugging pipe."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WITHIN_S = 180

# Of every figure: its name, how many marks that show data have a size on the screen, and whether
# it is within the page.
MARKS = """
[...document.querySelectorAll(".chart")].map(chart => [
    chart.dataset.figure,
    [...chart.querySelectorAll("[class*=mark-]:not([class*=role-axis]):not([class*=role-legend])" +
        ":not(.mark-group):not(.mark-text) path")]
        .filter(mark => mark.getBoundingClientRect().width > 0).length,
    chart.querySelector("svg").getBoundingClientRect().right <= innerWidth,
])
"""

# Cells of tables in which three words or more stand in lines of hardly more than one.
ONE_WORD_LINES = """
[...document.querySelectorAll("details")].forEach(each => each.open = true),
[...document.querySelectorAll("th, td")].filter(cell => {
    const words = cell.innerText.trim().split(/\\s+/).length;
    const range = document.createRange();
    range.selectNodeContents(cell);
    const tops = [...range.getClientRects()].map(each => each.top).sort((a, b) => a - b);
    const lines = tops.filter((top, at) => at == 0 || top - tops[at - 1] > 8).length;
    return words >= 3 && lines > words / 1.5;
}).map(cell => cell.innerText)
"""


def executable() -> str:
    """Find a browser, or skip the test and say how to get one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine; on Debian: apt-get install chromium")
    return found


class Browser:
    """One page at a time, and all that happened on it."""

    def __init__(self, to: int, back: int) -> None:
        self._to = os.fdopen(to, "wb", buffering=0)
        self._back = os.fdopen(back, "rb", buffering=0)
        self._number = 0
        self._answers: dict[int, dict] = {}
        self._news = threading.Condition()
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def close(self) -> None:
        """Let go of the pipe, once the browser has."""
        self._to.close()
        self._listener.join(WITHIN_S)
        self._back.close()

    def open(self, page: Path, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Open a page and wait until all its figures are drawn."""
        self._session = None  # the browser itself makes pages
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("document.documentElement?.dataset.drawn")

    def evaluate(self, expression: str):
        """Compute something on the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        until_s = time.monotonic() + WITHIN_S
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < until_s, f"not true within {WITHIN_S} s: {expression}"
            time.sleep(0.05)

    def photograph(self, path: Path) -> None:
        """Take a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1}
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, **parameters):
        with self._news:
            self._number += 1
            number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        with self._news:
            arrived = self._news.wait_for(lambda: number in self._answers, WITHIN_S)
            assert arrived, f"the browser did not answer {method}"
            answer = self._answers.pop(number)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _listen(self) -> None:
        waiting = b""
        with contextlib.suppress(OSError, ValueError):  # closed while it was read from
            while chunk := self._back.read(1 << 16):
                *messages, waiting = (waiting + chunk).split(b"\0")
                for text in messages:
                    self._hear(json.loads(text))

    def _hear(self, message: dict) -> None:
        with self._news:
            if "id" in message:
                self._answers[message["id"]] = message
                self._news.notify_all()
        told = message.get("params", {})
        kind = message.get("method")
        if kind == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif kind == "Runtime.consoleAPICalled" and told["type"] in {"error", "warning"}:
            self.complaints.append(str([each.get("value") for each in told["args"]]))
        elif kind == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif kind == "Log.entryAdded" and told["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(told["entry"]["text"])


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium; it ends with the block, and leaves nothing outside of `profile`."""
    command = executable()
    reads, to = os.pipe()
    back, writes = os.pipe()
    # The browser reads from descriptor 3 and answers on 4.
    script = (
        "import fcntl, os, sys\n"
        f"ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in ({reads}, {writes})]\n"
        "os.dup2(ends[0], 3), os.dup2(ends[1], 4)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    options = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",  # in a container that is 64 MB
        "--remote-debugging-pipe",
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            script,
            command,
            *options,
            f"--user-data-dir={profile}",
            "about:blank",
        ],
        pass_fds=(reads, writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"HOME": str(profile)},
    )
    os.close(reads)
    os.close(writes)
    running = Browser(to, back)
    try:
        yield running
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        running.close()
