#!/usr/bin/env python3
"""Drives the page in Debian's Chromium, and prints its checks as lines "ok NAME" or "not ok NAME: WHY".

    web_browser.py PROCTOR LINK FOLDER

There are the jobs "leaky", which runs with an anomaly, "steps" with two sheets, and "ended". Pictures
go to FOLDER. PROCTOR_HOME is the daemon's.
"""

import os
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

PATIENCE = 90
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--window-size=1400,1000"]

# Contrast of text with what is behind it, and names of what can be operated: the worst of what axe would find.
AUDIT = r"""
const faults = [];
const parse = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
	.reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
const back = (n) => { for (; n; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); if (c.length && (c[3] ?? 1) > 0.5) return c; } return [255, 255, 255]; };
for (const n of document.querySelectorAll('body *')) {
	const own = [...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
	if (!own || !n.checkVisibility() || n.closest('.hidden, .skip, [aria-hidden]')) continue;
	const a = luminance(parse(getComputedStyle(n).color)), b = luminance(back(n));
	const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)} of "${n.textContent.trim().slice(0, 30)}"`);
}
for (const n of document.querySelectorAll('button, a, input, select, [role=progressbar], [role=group], [role=region], svg[role=img]')) {
	if (!n.checkVisibility()) continue;
	const name = n.getAttribute('aria-label') || n.textContent.trim() || n.labels?.[0]?.textContent || n.querySelector('img')?.alt;
	if (!name) faults.push(`no name: ${n.outerHTML.slice(0, 80)}`);
}
for (const n of document.querySelectorAll('figure.chart')) if (!n.querySelector('details summary')) faults.push('a chart without its table');
for (const n of document.querySelectorAll('table')) if (!n.caption) faults.push('a table without a caption');
const ids = [...document.querySelectorAll('[id]')].map((n) => n.id);
for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) faults.push(`id ${id} twice`);
if (!document.documentElement.lang || document.querySelectorAll('main').length !== 1 || document.querySelectorAll('h1').length !== 1) faults.push('lang, main or h1');
return faults.slice(0, 5);
"""


def check(name, passed, why=""):
    print(f"ok {name}" if passed else f"not ok {name}: {why}", flush=True)


def until(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except Exception:  # pylint: disable=broad-except  # an element that was replaced meanwhile
            pass
        time.sleep(0.3)
    return None


class Page:
    def __init__(self, folder):
        options = Options()
        self.folder = folder
        for flag in FLAGS:
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={tempfile.mkdtemp(dir=folder)}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.browser.set_page_load_timeout(PATIENCE)

    def all(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((n) => n.innerText).join(' ')", css)

    def has(self, css, text):
        return until(lambda: text in self.text(css))

    def js(self, script, *args):
        return self.browser.execute_script(script, *args)

    def go(self, address):
        self.js("location.hash = arguments[0]", address)

    def picture(self, name):
        self.browser.save_screenshot(os.path.join(self.folder, f"{name}.png"))

    def errors(self):
        return [e["message"] for e in self.browser.get_log("browser") if e["level"] == "SEVERE"]


def check_overview(page, link):
    page.browser.get(link)
    check("the link opens the overview", page.has("main", "Running and queued"), page.text("body"))
    check("the token leaves the address", "link=" not in page.browser.current_url, page.browser.current_url)
    check("it reports that it is live", page.has("#live", "live"), page.text("#live"))
    check("running jobs are there", page.has(".job", "leaky"), page.text("main"))
    check("what failed is a problem", page.has("main", "exit code 7"), page.text("main"))
    check("progress is shown", page.has(".job", "sheet 1 of 2"), page.text(".job"))
    open(os.path.join(page.folder, "passed.step"), "w", encoding="ascii").close()
    check("and moves", page.has(".job", "sheet 2 of 2"), page.text(".job"))
    check("labels and contrast of the overview", not page.js(AUDIT), page.js(AUDIT))
    page.picture("overview")
    page.all("#search")[0].send_keys("leak")
    check("a search leaves what matches", until(lambda: "steps" not in page.text(".job") and "leaky" in page.text(".job")), page.text(".job"))


def check_job(page):
    page.go("#/job/leaky")
    check("a planted leak is visible", page.has(".anomaly", "memory leak"), page.text("main"))
    check("as a ribbon on the time axis", until(lambda: page.all(".ribbon")), "no ribbon")
    until(lambda: page.all(".plot canvas"))
    page.js("document.querySelector('.ribbon').click()")
    check("whose evidence opens", until(lambda: page.all(".anomaly[open] .evidence")), page.text(".anomaly"))
    check("a chart is drawn", page.js("""const c = document.querySelector('.plot canvas');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v !== 0);"""), "an empty canvas")
    page.js("document.querySelector('.chart details').open = true")
    check("and has its table", until(lambda: len(page.all(".chart tbody tr")) > 3), page.text(".chart"))
    check("processes have their lifetimes", page.all(".life rect"), page.text("main"))
    check("labels and contrast of a job", not page.js(AUDIT), page.js(AUDIT))
    page.js("scrollTo(0, 0)")
    page.picture("job")
    page.js("document.getElementById('theme').click()")
    check("in the dark, too", not page.js(AUDIT), page.js(AUDIT))
    page.picture("job-dark")
    page.js("document.getElementById('theme').click()")
    plot = page.all(".plot")[0]
    ActionChains(page.browser).move_to_element(plot).click_and_hold().move_by_offset(250, 0).release().perform()
    check("a span of time lists what else moved", page.has("h3", "What else moved"), page.text("main"))
    check("and is in the address", until(lambda: "from=" in page.browser.current_url), page.browser.current_url)


def check_comeback(page, proctor):
    page.go("#/")
    page.has(".job", "leaky")
    pid = int(subprocess.run([proctor, "status", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
              .partition('"pid":')[2].split(",")[0])
    os.kill(pid, 9)
    check("a daemon that is killed is away", page.has("#live", "away"), page.text("#live"))
    before = page.errors()
    until(lambda: subprocess.run([proctor, "start"], check=False).returncode == 0)
    subprocess.run([proctor, "run", "-q", "--job", "between", "--", "true"], check=False)
    check("the next one finds the page live", until(lambda: page.text("#live") == "live"), page.text("#live"))
    check("which shows what happened meanwhile", page.has("main", "between"), page.text("main"))
    page.go("#/job/leaky")
    gap = "return document.querySelector('.chart') !== null"
    check("and the job goes on", until(lambda: page.js(gap)), page.text("main"))
    return [e for e in before + page.errors() if "ERR_CONNECTION_REFUSED" not in e and "ERR_INCOMPLETE" not in e and "ERR_CONNECTION_RESET" not in e
            and "ERR_EMPTY_RESPONSE" not in e]


def main(proctor, link, folder):
    page = Page(folder)
    try:
        check_overview(page, link)
        check_job(page)
        page.go("#/compare?runs=ended:1,ended:2")
        check("runs are compared", page.has("table", "ended #2"), page.text("main"))
        check("labels and contrast of a comparison", not page.js(AUDIT), page.js(AUDIT))
        page.picture("compare")
        page.go("#/ranks/ranks")
        check("ranks have the verdict's sentence", page.has(".verdict", "rank"), page.text("main"))
        check("and a line each", page.has("table", "rank 2"), page.text("main"))
        check("labels and contrast of ranks", not page.js(AUDIT), page.js(AUDIT))
        check("nothing that is unknown is printed as null", "null" not in page.text("main") and "NaN" not in page.text("main"), page.text("main"))
        page.go("#/patterns")
        check("patterns are listed", page.has("main", "Patterns"), page.text("main"))
        page.go("#/job/ended/1")
        check("markup in a command is text", page.has(".answer .command", "<img src=x") and not page.all("main img"), page.text("main"))
        page.go("#/job/%3Cimg%20src=x%3E")
        check("as it is in an address", page.has(".failure", "job") and not page.all("main img"), page.text("main"))
        errors = [e for e in page.errors() if "status of 40" not in e]
        check("no errors are on the console", not errors, errors)
        errors = check_comeback(page, proctor)
        check("nor when the daemon comes back", not errors, errors)
    finally:
        page.browser.quit()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
