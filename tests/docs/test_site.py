"""The site in a browser: nothing too wide, nothing too pale, nothing from elsewhere, and what can be pressed works."""

import functools
import re
import shutil
import threading
from dataclasses import asdict
from datetime import datetime, timezone
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from documentation_pages import ROOT

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api")
build = pytest.importorskip("mkdocs.commands.build")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("needs Chromium", allow_module_level=True)

NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
# Each text that is seen and has less than 4.5 of the contrast that WCAG 2.2 defines: between its colour and the nearest
# background that is not transparent.
_PALE = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const pale = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({ opacityProperty: true })) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) pale.add(`${walker.currentNode.data.trim().slice(0, 30)} ${contrast.toFixed(2)}`);
  }
  return [...pale];
}"""
_TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_): ...


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Its address, and the directory that it was built into."""
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", folder
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        # As root, in a container, it has no sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page in a window, and what went wrong while it was there."""

    def __init__(self, browser, address, *, window=WIDE, colours="light"):
        self.address = address
        self.wrong = []
        self.context = browser.new_context(viewport=window, color_scheme=colours)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("request", self._asked)

    def _asked(self, request):
        if not request.url.startswith((self.address, "data:")):
            self.wrong.append(f"asks {request.url}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def go(self, page):
        self.page.goto(self.address + page)
        return self.page


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("window", [NARROW, WIDE], ids=["narrow", "wide"])
def test_pages_fit_and_can_be_read(browser, site, window, colours):
    address, folder = site
    with Visit(browser, address, window=window, colours=colours) as visit:
        for path in sorted(folder.glob("*.html")):
            page = visit.go(path.name)
            assert (path.name, page.evaluate(_TOO_WIDE)) == (path.name, 0)
            assert (path.name, page.evaluate(_PALE)) == (path.name, [])
        assert visit.wrong == []


# What somebody types, and what has to be the first answer to it; without one, nothing breaks.
_ASKED = {
    "restore": "command-line.html#restore",
    "vault full": "recover.html#vault-full",
    "no vault": "recover.html#no-vault",
    "set back": "signatures.html#a-vault-that-was-set-back",
    "corrupt": "recover.html#damaged",
    "encyrpt": "recover.html#encrypted",
    "migrate": "moving.html",
    "crewai": "recipes.html",
    "purge": "saved-secret.html",
    "gdpr": "saved-secret.html",
    "docker": "hosts.html#docker",
    "iam": "object-stores.html#the-smallest-rights",
    "lost key": "recover.html#lost-key",
    "errors": "errors.html",
    "delete_snapshot": "reference-api.html#ColonyMemory.delete_snapshot",
    "ConflictDetected": "recover.html#two-writers",
    "UnsupportedFormat": "errors.html#what-each-one-means",
    "c++ [": None,
}


def test_search_finds_what_helps_first(browser, site):
    with Visit(browser, site[0]) as visit:
        opened = visit.go("index.html")
        opened.keyboard.press("/")
        for asked, page in _ASKED.items():
            opened.fill("#query", asked)
            if page is None:
                opened.wait_for_timeout(300)
            else:
                opened.wait_for_selector(f"#results a:first-child[href$='{page}']")
        opened.fill("#query", "restore")
        opened.wait_for_selector("#results a")
        opened.keyboard.press("ArrowDown")
        assert opened.evaluate("document.activeElement.closest('#results') !== null")
        opened.keyboard.press("Escape")
        assert opened.is_hidden("#results")
        assert visit.wrong == []
    assert (site[1] / "search.json").stat().st_size < 300_000


def test_without_scripts_all_can_be_read_and_reached(browser, site):
    address, folder = site
    for window in (NARROW, WIDE):
        context = browser.new_context(viewport=window, java_script_enabled=False)
        page = context.new_page()
        for path in sorted(folder.glob("*.html")):
            page.goto(address + path.name)
            assert (path.name, page.evaluate(_TOO_WIDE)) == (path.name, 0)
            assert page.is_hidden("#query")
        page.goto(address + "recover.html")
        if window is NARROW:
            assert page.is_hidden("#nav")
            page.click(".menu")
        assert page.is_visible("#nav a[href='retention.html']")
        context.close()


def test_the_address_of_messages_leads_to_the_part_that_helps(browser, site):
    from colony_memory.shell.words import errors

    short = errors.PAGE.rpartition("/")[2]
    for scripts in (False, True):
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        assert page.goto(f"{site[0]}{short}#vault-full").ok
        assert page.evaluate("Math.abs(document.getElementById('vault-full').getBoundingClientRect().top)") < 120
        page.click("main a[href='vaults.html#which-format'] >> nth=0")
        assert page.url == f"{site[0]}vaults.html#which-format"
        context.close()


def test_on_paper_nothing_is_cut_off_and_nothing_is_to_be_pressed(browser, site):
    address, folder = site
    with Visit(browser, address, window={"width": 720, "height": 1000}, colours="dark") as visit:
        for path in sorted(folder.glob("*.html")):
            page = visit.go(path.name)
            page.emulate_media(media="print")
            assert (path.name, page.evaluate(_TOO_WIDE)) == (path.name, 0)
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert (path.name, page.evaluate(_PALE)) == (path.name, [])
            assert [page.is_hidden(each) for each in (".top", "#nav")] == [True, True]


def test_colours_can_be_chosen_and_stay(browser, site):
    paper = "getComputedStyle(document.body).backgroundColor"
    with Visit(browser, site[0]) as visit:
        page = visit.go("index.html")
        light = page.evaluate(paper)
        page.click(".colours")
        dark = page.evaluate(paper)
        assert light != dark
        assert visit.go("recover.html").evaluate(paper) == dark
        page.click(".colours")
        assert page.evaluate(paper) == light
        assert visit.wrong == []


def test_only_what_was_typed_is_copied(browser, site):
    with Visit(browser, site[0]) as visit:
        visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site[0].rstrip("/"))
        page = visit.go("recover.html")
        page.locator(".copy").nth(1).click(force=True)
        page.wait_for_function("document.querySelectorAll('.copy')[1].textContent === 'Copied'")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == "colony-memory status\ncolony-memory list\ncolony-memory verify\n"
        page = visit.go("reference-api.html")
        block = page.locator(".block", has=page.locator(".gp")).first
        block.locator(".copy").click(force=True)
        block.locator("text=Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("from colony_memory import ")
        assert copied.endswith("\nmem.restore()\n")
        assert visit.wrong == []


def test_everything_can_be_reached_by_the_keyboard(browser, site):
    with Visit(browser, site[0], window=NARROW) as visit:
        page = visit.go("index.html")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#content"
        page.focus(".menu")
        page.keyboard.press("Enter")
        assert page.is_visible("#nav")
        page.keyboard.press("Escape")
        assert page.is_hidden("#nav")
        assert visit.wrong == []


def test_each_page_is_there_as_markdown(site):
    _, folder = site
    index = (folder / "llms.txt").read_text(encoding="utf-8")
    pages = [path for path in folder.glob("*.html") if path.name != "404.html"]
    assert len(pages) > 20
    for path in pages:
        assert path.with_suffix(".md").read_text(encoding="utf-8").startswith("# ")
        assert re.search(rf"^- \[[^]]+\]\({path.stem}\.md\): .{{20}}", index, re.MULTILINE), path.stem
    assert re.search(r"^- .*", index, re.MULTILINE)[0].startswith("- [Recover](recover.md): ")


def _report(folder, snapshots):
    """The report on a vault in which whatever can be named is named to do harm."""
    from colony_memory import ColonyMemory
    from colony_memory.shell.report import look_over, render
    from colony_memory.vaults.memory import MemoryVault

    harm = "</script><img src=x onerror=alert(1)>\u202e"
    memory = ColonyMemory(backend=MemoryVault())
    for n in range(min(snapshots, 3)):
        memory.backup({harm: f"<b>{n}</b>\n", "b.md": "x" * 500}, note=harm)
    now = datetime(2026, 11, 28, tzinfo=timezone.utc)
    checked, labels = look_over(memory, url="memory:", now=now)
    if snapshots > 3:
        row = labels[0]["snapshots"][0]
        days = [f"2026-11-{1 + n % 28:02}T00:00:00Z" for n in range(snapshots)]
        labels[0]["snapshots"] = [{**row, "snapshot_id": f"id-{n}", "created_at": day} for n, day in enumerate(days)]
    newest = checked.verdict.newest
    status = {"state": checked.verdict.state, "vault": harm, "newest": newest and asdict(newest)}
    room = {"quota_bytes": 10_000_000, "used_bytes": 5_000_000, "available_bytes": 5_000_000}
    problem = {"label": harm, "what": harm, "mend": harm, "fallback": None}
    status = {**status, **room, "problems": [problem]}
    page = folder / f"report-{snapshots}.html"
    outlook = {"next_backups": [harm] * min(snapshots, 30)}
    page.write_text(render(labels, status=status, now=now, **outlook), encoding="utf-8")
    return page


@pytest.mark.parametrize("window", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("snapshots", [0, 1, 300, 3000])
def test_a_report_can_be_read_and_does_no_harm(browser, tmp_path, window, snapshots):
    path = _report(tmp_path, snapshots)
    with Visit(browser, path.as_uri(), window=window) as visit:
        asked = []
        visit.page.on("dialog", lambda dialog: asked.append(dialog.message))
        page = visit.go("")
        assert page.evaluate(_TOO_WIDE) == 0
        assert page.evaluate(_PALE) == []
        if snapshots:
            assert page.locator("tbody").first.locator("tr").count() == min(snapshots, 25)
        assert page.locator("img").count() == 0
        if snapshots:
            assert page.locator("#room p").count() == 1 + min(snapshots, 25)
            page.locator(".names button").first.click()
            page.locator("details summary").first.click()
            assert page.evaluate("document.querySelector('h3').textContent").endswith("\\u{202e}")
            assert page.evaluate(_TOO_WIDE) == 0
        assert (asked, visit.wrong) == ([], [])
