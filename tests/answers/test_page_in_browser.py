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

KINDS = {
    "forecast": ("candidate-times", "hop-bytes", "busiest-link", "importance", "observed", "hops"),
    "measured": ("candidate-times", "observed"),
    "plan": ("candidate-times", "runs", "observed", "matrix-nodes"),
    "first-plan": ("candidate-times", "matrix-tasks"),
    "mesh": ("layouts", "collectives"),
    "trained": ("observed", "growth", "importance"),
    "learned": ("observed",),
    "search": ("matrix-tasks", "matrix-nodes", "hops"),
    "simulation": ("matrix-tasks", "matrix-nodes", "hops"),
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
    """Open a page; nothing may be told on the console, and nobody asked for anything."""
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
    """What axe-core finds, whatever its weight."""
    found = axe.Axe().run(page).response["violations"]
    return [f"{fault['id']}: {fault['help']}" for fault in found]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_answer_shows_its_views(browser, pages, kind):
    with opened(browser, pages[kind], 400, "dark") as page:
        for key in KINDS[kind]:
            assert page.locator(f"#{key} svg").count() == 1, key
        drawn = page.evaluate(
            "Object.keys(JSON.parse(document.getElementById('charts').textContent))"
        )
        assert {*KINDS[kind]} <= {*drawn}
        has_torus = kind not in WITHOUT_TORUS
        assert page.locator("#network-view canvas").count() == has_torus
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert faults(page) == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_reaches_slider_differences_and_links(browser, pages, width, scheme):
    with opened(browser, pages["forecast"], width, scheme) as page:
        drawn = int(page.evaluate("document.body.dataset.drawn"))
        page.focus("#slider")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"Number(document.body.dataset.drawn) > {drawn}")
        assert page.evaluate("document.getElementById('first').value") == "1"
        page.check("input[value=difference]")
        page.locator("#hottest button").first.focus()
        page.keyboard.press("Enter")
        assert "of the time" in page.inner_text("#pairs")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(page) == []


def test_the_parts_of_a_step_stand_behind_its_links(browser, pages):
    with opened(browser, pages["mesh"]) as page:
        page.locator("#hottest button").first.click()
        assert "It works for:" in page.inner_text("#pairs")


def test_a_click_on_a_link_names_its_pairs(browser, pages):
    with opened(browser, pages["forecast"]) as page:
        canvas = page.locator("#network-view canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        before = page.inner_text("#pairs")
        for x in range(20, int(box["width"]) - 5, 7):
            page.mouse.click(box["x"] + x, box["y"] + box["height"] * 0.6)
            if page.inner_text("#pairs") != before:
                break
        assert page.inner_text("#pairs").startswith("Link (")
