"""The page in a real browser: quiet console, no request but the file, no overflow."""

import base64
import importlib.util
import json
import re
from pathlib import Path

import pytest

import extrap.reporting.drawing as drawing
from extrap.analyses.comparison.page import comparison_page
from extrap.analyses.sweep.page import report
from extrap.forecasting import forecast
from extrap.reporting.html import write_page
from extrap.reporting.index import write_index
from extrap.reporting.study_page import About
from tests.analyses.comparison.test_page import FINDINGS
from tests.analyses.conftest import as_runs, sweep_frame
from tests.conftest import DRAW
from tests.reporting.hostile import EVIL, PAYLOADS, poisoned
from tests.reporting.kinds import KINDS, hostile_report, write_kinds

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
FLAGS += ["disable-background-networking", "disable-component-update"]


pytestmark = pytest.mark.slow
SCREENS = ((390, "dark"), (1280, "light"))
"""Width, and colours, of a phone and of a desktop."""
DRAWN = "report"
"""The one kind of page with its pictures; a picture has a thousand marks that take time."""
AXES = ("axe_playwright_python", "axe_core_python")
"""Packages that carry `axe.min.js`, the newer first."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip(f"NOT TESTED in a browser: {CHROMIUM} and {DRIVER} are not installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=str(DRIVER))
    )
    driver.set_script_timeout(300)  # axe on a busy machine
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, made, judge, one_task):
    folder = tmp_path_factory.mktemp("reports")
    found = write_kinds(folder, made, judge, one_task)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_drawn", DRAW)
        report(made, judge(1.1), path=found[DRAWN], question="w" * 200)
    return found


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core, of whichever package carries it."""
    for name in AXES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin:
            return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")
    pytest.skip(f"NOT TESTED with axe: none of {', '.join(AXES)} is installed")


def requests_of(driver):
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return {
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    }


def show(driver, path, *, width=1280, scheme="light", media=""):
    """Open a page on a screen of a width, in light or dark, or as it is printed."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},  # a smooth scroll takes its time
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    driver.get(path.as_uri())


def open_details(driver, opened):
    driver.execute_script(
        "document.querySelectorAll('details').forEach(d => d.open = arguments[0])", opened
    )


def outside_of(driver, path):
    """What was asked for but the page itself."""
    return {url for url in requests_of(driver) if not url.startswith("data:")} - {path.as_uri()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_asks_for_nothing_fits_its_screen_and_serves_all_readers(browser, pages, axe, kind):
    path = pages[kind]
    browser.get_log("performance")
    browser.get_log("browser")
    for width, scheme in SCREENS:
        show(browser, path, width=width, scheme=scheme)
        for opened in (False, True):
            open_details(browser, opened)
            needed = browser.execute_script("return document.documentElement.scrollWidth")
            assert needed <= width
            if width < 500:  # verdict, loss and advice are read without scrolling to the side
                sides = browser.execute_script(
                    "return [...document.querySelectorAll('main > .scroll')]"
                    ".filter(b => b.scrollWidth > b.clientWidth).map(b => b.ariaLabel)"
                )
                assert sides == []
        ink = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (ink == "rgb(22, 26, 33)") is (scheme == "dark")
        assert outside_of(browser, path) == set()
        assert browser.get_log("browser") == []
        browser.execute_script(axe)
        violations = browser.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map("
            "v => [v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 200)])))"
        )
        assert [v for v in violations if v[0] in ("serious", "critical")] == []
        browser.get_log("browser")


def test_page_is_readable_without_scripts(browser, pages):
    by = pytest.importorskip("selenium.webdriver.common.by").By
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, pages["report"])
        summary = browser.find_element(by.CSS_SELECTOR, "details.section summary")
        table = browser.find_element(by.CSS_SELECTOR, "details.section table")
        assert not table.is_displayed()
        summary.click()
        assert table.is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_print_shows_what_is_folded_in_light_colours(browser, pages):
    show(browser, pages["report"], scheme="dark", media="print")
    heights, ink = browser.execute_script(
        "const folded = [...document.querySelectorAll('details:not([open]) table')];"
        "return [folded.map(t => t.getBoundingClientRect().height),"
        " getComputedStyle(document.body).backgroundColor]"
    )
    assert len(heights) > 5
    assert min(heights) > 20
    assert ink == "rgb(255, 255, 255)"
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 3


@pytest.mark.usefixtures("pictures")
def test_pages_of_ten_thousand_runs_weigh_one_megabyte_at_most(tmp_path, pages):
    rates = tuple(2.0 ** (-10 + 7 * i / 39) for i in range(40))
    many = forecast(as_runs(sweep_frame(rates=rates, seeds=50)))
    assert len(many.runs) == 10_000
    path = report(many, path=tmp_path / "many.html")
    assert max(page.stat().st_size for page in (path, *pages.values())) <= 1_000_000


def test_hostile_names_run_nothing_and_load_nothing(tmp_path, browser):
    folder = tmp_path / "reports"
    about = About(EVIL, EVIL, {EVIL: EVIL}, created="2026-01-01T00:00:00+00:00")
    names = {"lost": EVIL, "shifted": EVIL + " ", "steeper": PAYLOADS["style"]}
    comparison = comparison_page(poisoned(FINDINGS, names), about)
    columns = PAYLOADS["picture"], PAYLOADS["svg"]
    pages = [
        hostile_report(folder / "javascript:alert(1).html", *columns),
        write_page(comparison, folder / "comparison.html"),
    ]
    for path in (*pages, write_index(folder)):
        browser.get_log("performance")
        browser.get(path.as_uri())
        assert not has_dialog(browser)
        assert outside_of(browser, path) == set()
        assert browser.get_log("browser") == []
        found = browser.execute_script(
            "return [document.images.length, document.forms.length,"
            " document.querySelectorAll('iframe,object,embed,foreignObject').length,"
            " document.scripts.length]"
        )
        assert found == [0, 0, 0, 0]
    for link in browser.execute_script("return [...document.links].map(a => a.href)"):
        assert link.startswith(folder.as_uri() + "/")


def test_a_script_put_into_a_page_does_not_run(tmp_path, browser, pages):
    text = pages["report"].read_text(encoding="utf-8")
    forged = tmp_path / "forged.html"
    evil = "<script>window.evil = 1</script><svg onload='window.evil = 2'></svg>"
    forged.write_text(text.replace("<main", f"{evil}<main"), encoding="utf-8")
    show(browser, forged)
    assert browser.execute_script("return window.evil ?? 0") == 0
    assert len(browser.execute_script("return document.scripts")) == 1
    refused = browser.get_log("browser")
    assert any("Content Security Policy" in entry["message"] for entry in refused)


def has_dialog(driver):
    """Whether an alert is open."""
    exceptions = pytest.importorskip("selenium.common.exceptions")
    try:
        driver.switch_to.alert.dismiss()
    except exceptions.NoAlertPresentException:
        return False
    return True
