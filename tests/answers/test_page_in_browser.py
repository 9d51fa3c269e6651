"""Pages in a real browser: every view renders, controls work, no request leaves the file."""

import shutil
from contextlib import contextmanager

import pytest
from report_answers import answers

import toruscast as tc

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium", allow_module_level=True)

TRAFFIC = ("candidate-times", "limits", "spread", "matrix-tasks", "matrix-nodes")
KINDS = {
    "forecast": (*TRAFFIC, "check"),
    "measured": (*TRAFFIC, "observed"),
    "plan": (*TRAFFIC, "runs"),
    "first-plan": TRAFFIC,
    "mesh": ("layouts", "collectives", "chips-0", "chips-1", "chips-0-baseline"),
    "trained": ("observed", "growth", "importance"),
    "learned": ("observed",),
    "search": (*TRAFFIC, "progress"),
    "simulation": ("limits", "spread", "timeline"),
}
WITHOUT_TORUS = {"trained", "learned"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for kind, answer in answers().items():
        tc.write_report(answer, folder / f"{kind}.html")
    return {path.stem: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser, file, width=1280, scheme="light"):
    """Open a page; the console must be empty, and the page must make no requests."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    told, asked = [], []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", lambda dialog: told.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-ready=yes]")
    yield page
    assert told == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    context.close()


def faults(page):
    """Return all violations that axe-core finds, of any severity."""
    found = axe.Axe().run(page).response["violations"]
    return [f"{fault['id']}: {fault['help']}" for fault in found]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_answer_shows_its_views(browser, pages, kind):
    with opened(browser, pages[kind], 400, "dark") as page:
        for key in KINDS[kind]:
            assert page.locator(f"#{key} svg").count() == 1, key
        has_torus = kind not in WITHOUT_TORUS
        assert page.locator("#map-a").count() == has_torus
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert faults(page) == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_reaches_maps_differences_and_links(browser, pages, width, scheme):
    with opened(browser, pages["forecast"], width, scheme) as page:
        drawn = int(page.evaluate("document.body.dataset.drawn"))
        page.focus("#first")
        page.keyboard.press("ArrowDown")
        page.wait_for_function(f"Number(document.body.dataset.drawn) > {drawn}")
        page.check("input[value=difference]")
        page.focus("#map-a")
        page.keyboard.press("Enter")
        hottest = page.inner_text("#link-details")
        assert hottest.startswith("Link (")
        assert "to task" in hottest
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#link-details") != hottest
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(page) == []


def test_the_parts_of_a_step_stand_behind_its_links(browser, pages):
    with opened(browser, pages["mesh"]) as page:
        page.focus("#map-a")
        page.keyboard.press("Enter")
        assert "allreduce" in page.inner_text("#link-details") or "script" in page.inner_text(
            "#link-details"
        )


def test_a_click_on_a_link_names_its_pairs(browser, pages):
    with opened(browser, pages["forecast"]) as page:
        page.locator("#map-a").hover(position={"x": 40, "y": 19})
        hovered = page.inner_text("#link-details")
        page.locator("#map-a").click(position={"x": 29, "y": 19})
        assert page.inner_text("#link-details").startswith("Link (")
        assert page.inner_text("#link-details") != hovered
        page.locator("#map-a").click(position={"x": 40, "y": 19})
        assert page.inner_text("#link-details") == hovered
        assert ", busiest link (" in page.inner_text("#name-a")


def test_all_parts_of_a_page_are_of_the_mappings_that_are_chosen_or_name_theirs(browser, pages):
    with opened(browser, pages["forecast"]) as page:
        page.locator("#map-a").focus()
        page.keyboard.press("Enter")
        names = page.evaluate("[...document.querySelector('#first').options].map((o) => o.text)")
        for control, other in (("#first", 2), ("#second", 3)):
            page.select_option(control, str(other))
            chosen = [
                page.locator(f"{one} option:checked").inner_text() for one in ("#first", "#second")
            ]
            told = page.inner_text("#link-details")
            assert all(name[:50] in told for name in chosen)
            assert names[0][:50] not in told or names[0] in chosen
        for chart in ("limits", "spread"):
            lead = page.locator(f"section:has(#{chart}) p.lead").first.inner_text()
            assert all(name[:50] in lead for name in names[:2])


def test_candidates_are_sorted_and_filtered(browser, pages):
    with opened(browser, pages["forecast"]) as page:
        page.click("summary:has-text('All 12 candidates')")
        rows = page.locator("#candidates tbody tr")
        first = rows.first.inner_text()
        page.locator("#candidates th button").nth(2).click()
        page.locator("#candidates th button").nth(2).click()
        assert rows.first.inner_text() != first
        page.fill("input[type=search]", "identity")
        left = page.locator("#candidates tbody tr:visible").all_inner_texts()
        assert 0 < len(left) < 12
        assert all("identity" in row for row in left)


def test_everything_stands_on_paper(browser, pages):
    with opened(browser, pages["forecast"]) as page:
        page.emulate_media(media="print")
        box = page.locator("#map-a").bounding_box()
        assert box["height"] > 50
        headings = page.locator("h2")
        assert headings.count() > 3
        assert all(heading.is_visible() for heading in headings.all())
        texts = " | ".join(headings.all_inner_texts()).lower()
        expected = ("links by", "busiest links", "busy time", "limited by")
        assert all(text in texts for text in expected)
        assert page.locator("#modes").is_hidden()
        assert page.locator(".scroll").evaluate_all(
            "(all) => all.every((e) => getComputedStyle(e).overflow === 'visible')"
        )
