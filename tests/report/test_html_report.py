"""The page in a real browser. Skipped where Chromium and its driver are not installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span
from shrinkrepro.report.html import html
from shrinkrepro.results import Explanation, Result, Step, findings

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium and chromedriver are not here")

Open = Callable[..., webdriver.Chrome]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser: webdriver.Chrome, tmp_path: Path) -> Open:
    """Opens the page of what was found in a window of some width, in a scheme of colours, on screen or on paper."""

    def opened(
        found: Result | Explanation, *, width: int = 1280, scheme: str = "light", media: str = ""
    ) -> webdriver.Chrome:
        page = tmp_path / "report.html"
        page.write_text(html(findings(found)), encoding="utf-8")
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        browser.get(page.as_uri())
        return browser

    return opened


def one(browser: webdriver.Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def overflow(browser: webdriver.Chrome) -> int:
    """By how many pixels the page is wider than what is seen of it."""
    width = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return int(browser.execute_script(width))


def faded(browser: webdriver.Chrome) -> str:
    """The text that is shown as removed, white space aside."""
    pieces = browser.find_elements(By.CSS_SELECTOR, "#script .tall span.gone:not(.line)")
    return "".join(str(piece.get_property("textContent")) for piece in pieces)


@pytest.fixture
def melted(result: Result) -> Result:
    """A reduction in two steps, each of which took text out of the script."""
    original = result.explanation.program
    first = without(original, 'print("noise")\n')
    second = without(first, "    return y\n")
    assert result.reduced is not None
    return replace(
        result,
        reduced=replace(result.reduced, program=second),
        steps=(
            Step(original, "", 0.0, 0),
            Step(first, "delete_statements", 0.5, 5),
            Step(second, "simplify_functions", 1.0, 9),
        ),
    )


def without(program: Program, text: str) -> Program:
    start = program.entry.text.index(text)
    return Patch((Edit(Span("train.py", start, start + len(text))),)).apply(program)


def test_nothing_is_fetched_and_nothing_goes_wrong(melted: Result, show: Open) -> None:
    page = show(melted)
    assert page.get_log("browser") == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [375, 1280])
def test_the_page_is_no_wider_than_the_window(melted: Result, show: Open, width: int) -> None:
    page = show(melted, width=width)
    assert overflow(page) <= 0


def test_an_explanation_alone_makes_a_page_without_a_reduction(explanation: Explanation, show: Open) -> None:
    page = show(explanation, width=375)
    assert page.find_elements(By.ID, "step") == []
    assert one(page, ".line.changed").text.endswith("y += 1")
    assert page.get_log("browser") == []
    assert overflow(page) <= 0


def test_at_first_all_that_was_removed_is_faded(melted: Result, show: Open) -> None:
    assert faded(show(melted)) == 'returnyprint("noise")'


def test_the_slider_is_moved_by_keys_and_brings_removed_text_back(melted: Result, show: Open) -> None:
    page = show(melted)
    slider = one(page, "#step")
    slider.send_keys(Keys.ARROW_LEFT)
    assert faded(page) == 'print("noise")'
    assert one(page, "#told").text.startswith("step 1 of 2: delete statements, ")
    slider.send_keys(Keys.HOME)
    assert faded(page) == ""
    slider.send_keys(Keys.END)
    assert one(page, "#told").text.startswith("step 2 of 2: simplify functions, ")


def test_the_program_of_the_step_stands_beside_the_script(melted: Result, show: Open) -> None:
    page = show(melted)
    one(page, "#back").click()
    shown = [frame for frame in page.find_elements(By.CSS_SELECTOR, ".frame") if frame.is_displayed()]
    assert [frame.get_attribute("data-step") for frame in shown] == ["1"]
    assert "noise" not in shown[0].text
    assert "return y" in shown[0].text


def test_the_replay_runs_from_the_first_step(melted: Result, show: Open) -> None:
    page = show(melted)
    one(page, "#play").click()
    assert one(page, "#step").get_attribute("value") == "0"
    assert one(page, "#play").get_attribute("aria-pressed") == "true"


def test_copying_gives_the_program_without_line_numbers(melted: Result, show: Open) -> None:
    page = show(melted)
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    one(page, "[data-copy=reduced]").click()
    read = "navigator.clipboard.readText().then(arguments[0], error => arguments[0](String(error)))"
    assert melted.reduced is not None
    assert page.execute_async_script(read) == melted.reduced.program.entry.text


def test_every_control_has_a_name(melted: Result, show: Open) -> None:
    controls = show(melted).find_elements(By.CSS_SELECTOR, "button, input, a, [tabindex='0']")
    shown = [control for control in controls if control.is_displayed()]
    assert [control.tag_name for control in shown if not control.accessible_name] == []


def test_dark_is_dark(melted: Result, show: Open) -> None:
    def brightness(scheme: str) -> int:
        page = show(melted, scheme=scheme)
        colour: Any = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    assert brightness("dark") < 150 < 600 < brightness("light")


def test_on_paper_there_are_no_controls_and_all_of_the_script(melted: Result, show: Open) -> None:
    page = show(melted, media="print")
    assert not one(page, "#step").is_displayed()
    clipped = "return [...document.querySelectorAll('.tall')].some(e => e.scrollHeight > e.clientHeight + 1)"
    assert page.execute_script(clipped) is False


def test_markup_in_the_script_is_text(melted: Result, show: Open) -> None:
    attack = "'</script><img src=x onerror=\"window.hacked = 1\"><script>window.hacked = 1</script>'"
    culprit = melted.explanation.diagnosis.culprit
    assert culprit is not None
    odd = replace(melted.explanation.diagnosis, culprit=replace(culprit, source=f"y += {attack}"))
    page = show(replace(melted, explanation=replace(melted.explanation, diagnosis=odd), notes=(attack,)))
    assert page.execute_script("return window.hacked") is None
    assert attack in one(page, "main").text
