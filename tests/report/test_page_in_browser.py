"""The page in a real browser: every view renders, controls work, no request leaves the file."""

import shutil

import pytest

import toruscast as tc

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium", allow_module_level=True)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    comm = tc.patterns.halo_2d((4, 8), 4096, periodic=True)
    torus = tc.Torus((4, 2, 4))
    answer = tc.forecast(comm, torus, tc.strategies.sample(comm, torus, n=9), check=True, budget=1)
    path = tmp_path_factory.mktemp("page") / "answer.html"
    tc.write_report(answer, path)
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_controls_and_no_request(browser, page_file, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    told, asked = [], []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    page.wait_for_selector("body[data-ready=yes]")
    charts = page.evaluate("Object.keys(JSON.parse(document.getElementById('charts').textContent))")
    for key in charts:
        assert page.locator(f"#{key} svg").count() == 1, key
    assert page.locator("#network-view canvas").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    drawn = int(page.evaluate("document.body.dataset.drawn"))
    page.focus("#slider")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"Number(document.body.dataset.drawn) > {drawn}")
    assert page.evaluate("document.getElementById('first').value") == "1"
    page.check("input[value=difference]")
    page.locator("#hottest button").first.focus()
    page.keyboard.press("Enter")
    assert "of the time" in page.inner_text("#pairs")

    assert told == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    context.close()


def test_a_click_on_a_link_names_its_pairs(browser, page_file):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(page_file.as_uri())
    page.wait_for_selector("body[data-ready=yes]")
    canvas = page.locator("#network-view canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    before = page.inner_text("#pairs")
    for x in range(20, int(box["width"]) - 5, 7):
        page.mouse.click(box["x"] + x, box["y"] + box["height"] * 0.6)
        if page.inner_text("#pairs") != before:
            break
    assert page.inner_text("#pairs").startswith("Link (")
    page.close()
