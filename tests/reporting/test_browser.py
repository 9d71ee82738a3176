"""The page in a real browser: quiet console, no request but the file, no overflow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from extrap.checking import check
from extrap.forecasting import forecast
from extrap.reporting import lever_page, report, write_index

from .conftest import as_runs, large_frame, sweep_frame
from .hostile import EVIL, PAYLOADS, poisoned
from .test_levers import REPORT as LEVERS

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
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


@pytest.fixture
def browser(tmp_path):
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip(f"NOT TESTED in a browser: {CHROMIUM} and {DRIVER} are not installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=str(DRIVER))
    )
    yield driver
    driver.quit()


def requests_of(driver) -> set[str]:
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return {
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    }


@pytest.mark.slow
def test_browser_finds_nothing_to_complain_about(tmp_path, browser, made, judge):
    folder = tmp_path / "reports"
    page = report(made, judge(), path=folder / "page.html", question="w" * 200, baseline=made)
    for path in (page, write_index(folder)):
        browser.get_log("performance")
        for width in (390, 1280):
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
            )
            browser.get(path.as_uri())
            for opened in (False, True):
                browser.execute_script(
                    "document.querySelectorAll('details').forEach(d => d.open = arguments[0])",
                    opened,
                )
                needed = browser.execute_script("return document.documentElement.scrollWidth")
                assert needed <= width
        outside = {url for url in requests_of(browser) if not url.startswith("data:")}
        assert outside == {path.as_uri()}
        assert browser.get_log("browser") == []


@pytest.mark.slow
def test_hostile_names_run_nothing_and_load_nothing(tmp_path, browser):
    folder = tmp_path / "reports"
    size, tuned = PAYLOADS["picture"], PAYLOADS["svg"]
    names = {"width": size, "lr": tuned}
    made = forecast(as_runs(sweep_frame().rename(columns=names), (size,), (tuned,)))
    verdicts = [
        replace(verdict, advice=EVIL, experiment=EVIL)
        for verdict in check(made, as_runs(large_frame().rename(columns=names), (size,), (tuned,)))
    ]
    about = {"title": EVIL, "question": EVIL, "provenance": {EVIL: EVIL}}
    pages = [
        report(made, verdicts, path=folder / "javascript:alert(1).html", **about),
        lever_page(
            poisoned(LEVERS, {"ghosts": EVIL, "kept": EVIL + " ", "batches": PAYLOADS["style"]}),
            path=folder / "levers.html",
            created="2026-01-01T00:00:00+00:00",
            **about,
        ),
    ]
    for path in (*pages, write_index(folder)):
        browser.get_log("performance")
        browser.get(path.as_uri())
        assert not has_dialog(browser)
        outside = {url for url in requests_of(browser) if not url.startswith("data:")}
        assert outside == {path.as_uri()}
        assert browser.get_log("browser") == []
        found = browser.execute_script(
            "return [document.scripts.length, document.images.length, document.forms.length,"
            " document.querySelectorAll('iframe,object,embed,foreignObject').length]"
        )
        assert found == [0, 0, 0, 0]
    for link in browser.execute_script("return [...document.links].map(a => a.href)"):
        assert link.startswith(folder.as_uri() + "/")


def has_dialog(driver) -> bool:
    """Whether an alert is open."""
    exceptions = pytest.importorskip("selenium.common.exceptions")
    try:
        driver.switch_to.alert.dismiss()
    except exceptions.NoAlertPresentException:
        return False
    return True
