"""The site: pages in their places, pictures, links, accessibility, and search from disk."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
mkdocs = pytest.importorskip("mkdocs.config", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")
ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = sorted((ROOT / "docs").rglob("*.svg"))
pytestmark = pytest.mark.filterwarnings("ignore:::mkdocs", "ignore:::material", "ignore:::pymdownx")
# The theme's script, which this test leaves out, makes blocks of code focusable.
AXE = {"rules": {"scrollable-region-focusable": {"enabled": False}}}
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")


def files_of(nav):
    """Yield the files that a navigation names."""
    for entry in nav:
        inside = entry if isinstance(entry, str) else next(iter(entry.values()))
        if isinstance(inside, str):
            yield inside
        else:
            yield from files_of(inside)


def test_every_page_has_a_place_in_the_site(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import api_page
    import site_hooks

    nav = site_hooks.on_config(mkdocs.load_config(str(ROOT / "mkdocs.yml"))).nav
    docs = ROOT / "docs"
    there = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    there |= {str(path.relative_to(docs).with_suffix(".md")) for path in docs.rglob("*.ipynb")}
    assert sorted(files_of(nav)) == sorted({*there, *api_page.pages()})


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_are_drawn(path):
    text = path.read_text()
    assert len(re.findall(r"<(?:rect|path|circle|line|use|text)\b", text)) > 1
    # Markdown ends HTML at a blank line, and a picture that has one stays empty.
    assert "\n\n" not in text or text.startswith("<?xml")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site."""
    from mkdocs.commands.build import build

    folder = tmp_path_factory.mktemp("site")
    build(mkdocs.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


class Outline(HTMLParser):
    """Headings, pictures, links and quotations of the article of a page."""

    def __init__(self, path):
        super().__init__()
        self.is_inside, self.is_picture = False, False
        self.headings, self.links, self.texts, self.faults = [], [], [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "article":
            self.is_inside = True
        if not self.is_inside:
            return
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img" and given.get("alt") is None:
            self.faults.append(f"picture without a text: {given.get('src')}")
        if tag == "blockquote" or (tag == "p" and self.is_picture):
            self.faults.append(f"stray {tag}")
        self.is_picture |= tag == "svg"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            self.texts.append(given.get("title") or "")

    def handle_endtag(self, tag):
        self.is_inside &= tag != "article"
        self.is_picture &= tag != "svg"

    def handle_data(self, data):
        if self.is_inside and self.texts:
            self.texts[-1] += data
        if self.is_inside and "```" in data:
            self.faults.append("raw fence")


def test_pages_are_well_formed(site):
    faults = {}
    for path in sorted(site.rglob("*.html")):
        page = Outline(path)
        own = list(page.faults)
        if path.name != "404.html":
            steps = zip(page.headings, page.headings[1:], strict=False)
            if page.headings[:1] != [1] or page.headings.count(1) > 1:
                own.append(f"headings {page.headings[:3]}")
            own += [f"h{b} below h{a}" for a, b in steps if b > a + 1]
        for link, text in zip(page.links, page.texts, strict=True):
            target = unquote(link.partition("#")[0])
            if not text.strip():
                own.append(f"link without a text: {link}")
            if ":" not in link and target and not (path.parent / target).exists():
                own.append(f"no such page: {link}")
        if own:
            faults[str(path.relative_to(site))] = own
    assert faults == {}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_on_any_page(site, browser, scheme):
    page = browser.new_context(color_scheme=scheme, offline=True).new_page()
    # The search and the buttons that the theme's script adds are not ours, and slow.
    page.route("**/*.js", lambda route: route.abort())
    # The page of a missing address names the files of the site from its root.
    page.route(
        re.compile(r"^file:///assets/.*\.css$"),
        lambda route: route.fulfill(path=site / route.request.url.removeprefix("file:///")),
    )
    faults = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        found = axe.Axe().run(page, options=AXE).response["violations"]
        own = [f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found]
        if own:
            faults[str(path.relative_to(site))] = own
    assert faults == {}


@needs_browser
def test_search_works_from_disk_and_asks_nobody(site, browser):
    page = browser.new_context(offline=True).new_page()
    asked, told = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("rendezvous")
    page.wait_for_selector("a.md-search-result__link")
    assert "rendezvous" in page.inner_text("ol.md-search-result__list")
    page.goto((site / "notebooks/metric.html").as_uri())
    assert "A metric of your own" in page.inner_text("h1")
    assert page.locator("table").count() >= 2
    assert told == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
