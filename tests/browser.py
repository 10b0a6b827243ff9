"""A real browser for tests: Chromium without a window, driven by chromedriver over WebDriver (plain HTTP)."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import free_ports

#: Under which a command answers with an element.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Escape": "\ue00c", "ArrowDown": "\ue015", "Tab": "\ue004", "Enter": "\ue007"}
#: No sandbox: it is not to be had in many containers, and the pages are our own.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900"]
#: Seconds, on a machine that does much else.
PATIENCE = 120


def missing() -> str | None:
    """Return why there is no browser; None where there is one."""
    if shutil.which("chromedriver") is None or _binary() is None:
        return "no chromium and chromedriver here (Debian: apt-get install chromium chromium-driver)"
    return None


def _binary() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One session. Locators are CSS selectors."""

    def __init__(self, address: str, session: str) -> None:
        self._address = f"{address}/session/{session}"

    def _ask(self, method: str, command: str, **data: Any) -> Any:
        return _request(method, self._address + command, data if method == "POST" else None)

    def open(self, page: Path) -> None:
        """Load a file and wait until it is there."""
        self._ask("POST", "/url", url=page.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a JavaScript function in the page and return what it returns."""
        return self._ask("POST", "/execute/sync", script=script, args=list(arguments))

    def click(self, selector: str, number: int = 0) -> None:
        """Click an element, as a mouse does: it must be visible, and nothing may lie over it."""
        self._ask("POST", f"/element/{self._all(selector)[number]}/click")

    def type(self, selector: str, text: str) -> None:
        """Type into an element; the names of `KEYS` are keys."""
        self._ask("POST", f"/element/{self._all(selector)[0]}/value", text=KEYS.get(text, text))

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def texts(self, selector: str) -> list[str]:
        """Return the text of the elements that can be seen."""
        shown = "e => e.checkVisibility()"
        return self.run(
            f"return [...document.querySelectorAll(arguments[0])].filter({shown}).map(e => e.innerText)", selector
        )

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.run(f"return Boolean({script})"):
            assert time.monotonic() < until, f"never came true: {script}"
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Return what the page complained of since the last call: script errors, refused requests."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", type="browser")]

    def requests(self) -> list[str]:
        """Return the addresses of all that the page asked for beside itself."""
        return self.run("return performance.getEntriesByType('resource').map(e => e.name)")

    def screenshot(self, file: Path) -> None:
        """Save what the window shows (PNG)."""
        file.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def print(self, file: Path) -> None:
        """Save the page as it would be printed (PDF)."""
        file.write_bytes(base64.b64decode(self._ask("POST", "/print", background=True)))

    def darken(self) -> None:
        """Have the page believe that its reader prefers dark."""
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self._ask("POST", "/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": features})

    def _all(self, selector: str) -> list[str]:
        found = self._ask("POST", "/elements", using="css selector", value=selector)
        return [element[ELEMENT] for element in found]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it."""
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                if _request("GET", f"{address}/status")["ready"]:
                    break
            except OSError:
                assert driver.poll() is None, "chromedriver ended"
                assert time.monotonic() < until, "chromedriver does not answer"
            time.sleep(0.1)
        wanted = {
            "goog:chromeOptions": {"binary": _binary(), "args": ARGUMENTS},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        session = _request("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        try:
            yield Browser(address, session)
        finally:
            _request("DELETE", f"{address}/session/{session}")
    finally:
        driver.terminate()
        driver.wait()


def _request(method: str, address: str, data: Any = None) -> Any:
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {address}: {error.read().decode()[:500]}") from None
