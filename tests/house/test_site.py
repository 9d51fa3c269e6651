"""The site: every page has its place, and its search works from disk, without a network."""

import re
import shutil
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
mkdocs = pytest.importorskip("mkdocs.config", reason="mkdocs is not installed")
markdown = pytest.importorskip("markdown", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")
ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = {"index.md": "# Start\n\nHere.\n", "other.md": "# Zanzibar\n\nA page to be found.\n"}


def test_every_page_has_a_place_in_the_site():
    named = set(re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    docs = ROOT / "docs"
    there = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    there |= {str(path.relative_to(docs).with_suffix(".md")) for path in docs.rglob("*.ipynb")}
    assert named == there, "name it under nav in mkdocs.yml"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.stem)
def test_no_page_shows_raw_fences(page):
    config = mkdocs.load_config(str(ROOT / "mkdocs.yml"))
    names, options = config["markdown_extensions"], config["mdx_configs"]
    html = markdown.markdown(page.read_text(), extensions=names, extension_configs=options)
    assert "```" not in html


@pytest.fixture
def site(tmp_path):
    """A site of two pages, built as ours."""
    from mkdocs.commands.build import build

    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in PAGES.items():
        (docs / name).write_text(text)
    shutil.copy(ROOT / "docs/notebooks/metric.ipynb", docs)
    config = mkdocs.load_config(
        str(ROOT / "mkdocs.yml"),
        docs_dir=str(docs),
        site_dir=str(tmp_path / "site"),
        nav=[*PAGES, "metric.md"],
        plugins=["search", "offline"],
    )
    build(config)
    return tmp_path / "site"


@pytest.mark.filterwarnings("ignore:::mkdocs", "ignore:::material", "ignore:::pymdownx")
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_search_works_from_disk_and_asks_nobody(site):
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        asked, told = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.click("input.md-search__input")
        page.keyboard.type("zanzibar")
        page.wait_for_selector("a.md-search-result__link")
        assert "Zanzibar" in page.inner_text("ol.md-search-result__list")
        page.goto((site / "metric.html").as_uri())
        assert "A metric of one" in page.inner_text("h1")
        assert page.locator("table").count() >= 2
        assert told == []
        assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
        browser.close()
