"""Takes the pictures of the HTML report: docs/report-wide.png and docs/report-phone.png. Needs chromium and its driver.

python docs/screenshots.py
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

DOCS = Path(__file__).resolve().parent
SCRIPT = DOCS.parent / "corpus" / "005-resnet-residual-iadd" / "train.py"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Picture(NamedTuple):
    """A part of the page: the window's width, from where to where down the page, how large, in which colours."""

    name: str
    width: int
    start: str
    height: int
    scale: float
    scheme: str


PICTURES = (
    Picture("report-wide.png", 1280, "header", 1580, 0.62, "light"),
    Picture("report-phone.png", 375, "#script", 1000, 0.9, "dark"),
)


def main() -> int:
    """Make the report of one program of the corpus and take the pictures of it."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        command = [sys.executable, "-m", "shrinkrepro", "-q", str(SCRIPT), "--html", str(page)]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            for picture in PICTURES:
                (DOCS / picture.name).write_bytes(taken(browser, page, picture))
        finally:
            browser.quit()
    return 0


def taken(browser: webdriver.Chrome, page: Path, picture: Picture) -> bytes:
    """The picture as PNG."""
    size = {"width": picture.width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": picture.scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page.as_uri())
    top = browser.execute_script(f"return document.querySelector('{picture.start}').getBoundingClientRect().top")
    clip = {"x": 0, "y": top - 14, "width": picture.width, "height": picture.height, "scale": picture.scale}
    made = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    return base64.b64decode(made["data"])


if __name__ == "__main__":
    sys.exit(main())
