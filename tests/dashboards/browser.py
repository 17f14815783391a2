"""Drives a headless Chromium over the WebDriver protocol: JSON over HTTP, no further package."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-color-profile=srgb",
]  # fmt: skip


def missing() -> str | None:
    """Why no browser can be driven here, or None."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return (
        f"not installed: {', '.join(absent)} (Debian: chromium chromium-driver)" if absent else None
    )


class Browser:
    """One page in one browser; closed as a context manager."""

    def __init__(self, profile: Path, downloads: Path | None = None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._base = f"http://127.0.0.1:{port}/session"
        self._await_driver(port)
        options: dict[str, Any] = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        if downloads:
            options["prefs"] = {"download.default_directory": str(downloads)}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        told = self._call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self._base += f"/{told['sessionId']}"
        if downloads:
            self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=10)

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that the function body `script` returns; a promise is awaited."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, condition: str, seconds: float = 20) -> Any:
        """The first true value of the expression `condition`, or a failure that shows it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = self.run(f"return ({condition})")
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true in {seconds} s: {condition}\n{self.console()}")

    def press(self, *keys: str) -> None:
        """Press and release keys one after another, as a keyboard would."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        body = {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}
        self._call("POST", "/actions", body)

    def back(self) -> None:
        self._call("POST", "/back", {})

    def forward(self) -> None:
        self._call("POST", "/forward", {})

    def console(self) -> list[str]:
        """What the console has said since the last call."""
        said = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in said]

    def cdp(self, command: str, **params: Any) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window and the colour scheme."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        """The whole page, also below the fold."""
        taken = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _await_driver(self, port: int) -> None:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("chromedriver did not start")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urlopen(request, timeout=90) as answer:
                return json.load(answer)["value"]
        except HTTPError as error:
            raise RuntimeError(error.read().decode()[:2000]) from error
