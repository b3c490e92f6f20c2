"""The page in a real browser: the same with scripts and without, no network, nothing obeyed."""

import functools
import http.server
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from native import read_lines, write_ledger
from pages import counts_in, counts_of
from running import ledger_audit
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from test_hostile import NASTY

pytestmark = pytest.mark.browser

RUNS = ("torch-ddp-epoch-restart", "torch-ddp-double-failure")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ATTACKS = [
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "</title></style><iframe src=javascript:alert(1)>",
    *NASTY,
]


def attack_of(sample_id: str) -> str:
    """Give a sample an id that would be more than an id, if anyone obeyed it."""
    return ATTACKS[sum(map(ord, sample_id)) % len(ATTACKS)] + sample_id


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Pages of real runs, and of one whose ids attack, each with its JSON report."""
    folder = tmp_path_factory.mktemp("pages")
    lines = [
        {**one, "sample_id": attack_of(one["sample_id"]), "source": ATTACKS[0]}
        if one["kind"] == "sample"
        else one
        for one in read_lines(FIXTURES / "traps" / "two-resumes-wrong-in-the-same-way" / "run")
    ]
    roots = {name: FIXTURES / "zoo" / name / "run" for name in RUNS}
    roots["hostile"] = write_ledger(lines, folder / "ledger")
    found = {}
    for name, root in roots.items():
        page = folder / f"{name}.html"
        ran = ledger_audit("postmortem", root, "--report", f"html={page}", "--format", "json")
        found[name] = (page, ran.report)
    return found


class _Server(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012  # of all requests, on purpose

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture(scope="module")
def server(pages: dict[str, tuple[Path, dict[str, Any]]]) -> Iterator[str]:
    """A server of the pages, which notes what is asked of it."""
    folder = next(iter(pages.values()))[0].parent
    handler = functools.partial(_Server, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module", params=["with scripts", "without scripts"])
def browser(request: pytest.FixtureRequest) -> Iterator[webdriver.Chrome]:
    """Chromium with an empty profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        if request.param == "without scripts":
            blocked = {"profile.managed_default_content_settings.javascript": 2}
            options.add_experimental_option("prefs", blocked)
        driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        driver.runs_scripts = request.param == "with scripts"  # type: ignore[attr-defined]
        try:
            yield driver
        finally:
            driver.quit()


def requested(browser: webdriver.Chrome, page: str) -> list[str]:
    """Give every address that a page asked for, itself included; not what the browser's own did."""
    messages = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    return [
        one["params"]["request"]["url"]
        for one in messages
        if one["method"] == "Network.requestWillBeSent" and one["params"]["documentURL"] == page
    ]


@pytest.mark.parametrize("name", [*RUNS, "hostile"])
def test_the_page_is_true_and_alone_in_a_browser(
    name: str,
    browser: webdriver.Chrome,
    server: str,
    pages: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    """Every count is that of the JSON report; one request, no complaint, no dialog, no stranger."""
    _, report = pages[name]
    page = f"{server}/{name}.html"
    browser.get("about:blank")
    browser.get_log("browser")
    _Server.asked.clear()

    browser.get(page)

    assert report["verdict"].upper() == browser.find_element(By.ID, "verdict").text
    seen = browser.page_source
    for number, resume in enumerate(report["resumes"], 1):
        assert counts_of(resume) == counts_in(seen, f"resume-{number}")
        table = browser.find_element(By.ID, f"counts-resume-{number}")
        shown = table.find_elements(By.CSS_SELECTOR, "tr[data-outcome] td:nth-child(2)")
        assert [
            "-" if one is None else f"{one['records']:,}"
            for group in resume["outcomes"].values()
            for one in group.values()
        ] == [one.text for one in shown]
    assert {page} == set(requested(browser, page))
    assert [f"/{name}.html"] == _Server.asked
    assert [] == browser.get_log("browser")
    for tag in ("img", "iframe", "object", "embed", "link", "form", "base"):
        assert [] == browser.find_elements(By.TAG_NAME, tag)
    assert 1 == len(browser.find_elements(By.TAG_NAME, "script"))
    has_buttons = bool(browser.find_elements(By.TAG_NAME, "button"))
    assert browser.runs_scripts == has_buttons  # type: ignore[attr-defined]


def test_scripts_add_tips_and_zoom_and_nothing_else(browser: webdriver.Chrome, server: str) -> None:
    """A cell tells what it is, a drawing grows; without scripts both are text and stay."""
    browser.get(f"{server}/{RUNS[0]}.html")
    drawing = browser.find_element(By.CSS_SELECTOR, "#resume-1 svg.cells")
    if not browser.runs_scripts:  # type: ignore[attr-defined]
        assert [] == browser.find_elements(By.CSS_SELECTOR, ".tip, .zoom")
        return
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", drawing)
    left, cell, top, row = (
        float(drawing.get_attribute(f"data-{one}") or 0) for one in ("left", "cell", "top", "row")
    )
    scale = drawing.rect["width"] / float(drawing.get_attribute("width") or 1)
    x = scale * (left + 8.5 * cell) - drawing.rect["width"] / 2
    y = scale * (top + 1.5 * row) - drawing.rect["height"] / 2

    ActionChains(browser).move_to_element_with_offset(drawing, int(x), int(y)).perform()

    tip = browser.find_element(By.CLASS_NAME, "tip")
    assert "rank 0, resumed, step 9: replayed" == tip.text
    before = drawing.rect["width"]
    browser.find_element(By.CSS_SELECTOR, "#resume-1 .zoom button:last-child").click()
    assert before * 1.4 < drawing.rect["width"]
    browser.find_element(By.CSS_SELECTOR, "#resume-1 .zoom button:first-child").click()
    assert abs(before - drawing.rect["width"]) < 2


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(
    width: int, scheme: str, browser: webdriver.Chrome, server: str
) -> None:
    """At either width, in either scheme, the page is no wider than its window."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    for name in (RUNS[1], "hostile"):
        browser.get(f"{server}/{name}.html")
        metrics = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})
        assert width >= metrics["cssContentSize"]["width"], name
        paper = browser.find_element(By.TAG_NAME, "html").value_of_css_property("background-color")
        assert ("rgba(20, 23, 26, 1)" if scheme == "dark" else "rgba(255, 255, 255, 1)") == paper


def test_paper_shows_what_is_folded(browser: webdriver.Chrome, server: str) -> None:
    """Printed, the folded parts are there, and what only a screen needs is not."""
    browser.get(f"{server}/{RUNS[0]}.html")
    letters = browser.find_element(By.CSS_SELECTOR, "#resume-1 .grid-letters")
    assert not letters.is_displayed()

    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})

    try:
        assert letters.rect["height"] > 20
        assert not browser.find_element(By.TAG_NAME, "nav").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen"})
