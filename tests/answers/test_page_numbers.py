"""Numbers on pages are those of the JSON of the same answer, and notebooks show its figures."""

import math
import re
from html import unescape

import pytest
from report_answers import answers, application

import toruscast as tc
from toruscast.answers.blocks import Chart, Section
from toruscast.answers.html import render_page
from toruscast.answers.table import Table
from toruscast.answers.write import make_answer, make_figure
from toruscast.text import number, percent

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "%": 1.0, "": 1.0}
BAR = re.compile(r"<title>[^<]*: (\S+) ?(s|ms|us|ns|%|)</title>")
CSV = "source,destination,bytes,time\n" + "".join(
    f"0,{hops},{size},{1e-6 + hops * 5e-8 + size / 2e9}\n"
    for hops in (1, 2)
    for size in (8, 1024, 65536, 1 << 20)
)


def results(folder):
    comm, torus, mappings = application()
    (folder / "times.csv").write_text(CSV)
    samples = tc.train(comm, torus, 16, n_splits=2).samples
    return answers() | {
        "explanation": tc.explain(comm, torus, mapping=mappings[4], against=mappings[1]),
        "calibration": tc.calibrate(str(folder / "times.csv"), torus),
        "flows": tc.simulate_flows(comm, torus, mappings[1]),
        "evaluation": tc.evaluate(samples=samples, features=["prior", "H1"], n_splits=20),
    }


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    return results(tmp_path_factory.mktemp("numbers"))


def leaves(content):
    """All numbers of a JSON document."""
    if isinstance(content, dict | list):
        values = content.values() if isinstance(content, dict) else content
        return {number for value in values for number in leaves(value)}
    return {content} if isinstance(content, int | float) else set()


def blocks(answer, kind):
    tables = [Section("", [answer.table])] if answer.table is not None else []
    for section in [*answer.sections, *tables]:
        if section.only != "terminal":
            yield from (block for block in section.blocks if isinstance(block, kind))


def test_bars_and_dots_are_numbers_of_the_json(every):
    n = 0
    for kind, result in every.items():
        answer = make_answer(result)
        known = leaves(answer.to_dict())
        for chart in blocks(answer, Chart):
            for text, unit in BAR.findall(chart.draw()):
                same = percent if unit == "%" else number
                texts = (
                    {same(value / UNITS[unit]) for value in known}
                    if unit != "%"
                    else {percent(value, digits=3).removesuffix(" %") for value in known}
                )
                assert text in texts, (kind, chart.key, text, unit)
                n += 1
    assert n > 80


def test_cells_of_tables_are_numbers_of_the_json(every):
    for kind, result in every.items():
        answer = make_answer(result)
        known = sorted(leaves(answer.to_dict()))
        for table in blocks(answer, Table):
            for column in table.visible_columns:
                for value in table.values[column.name].tolist():
                    is_number = isinstance(value, int | float) and not isinstance(value, bool)
                    if is_number and math.isfinite(value):
                        near = min(known, key=lambda each, value=value: abs(each - value))
                        assert near == pytest.approx(value), (kind, table.title, column.name)


def test_notebooks_show_a_figure_of_the_page(every):
    for kind, result in every.items():
        assert make_figure(result).svg in render_page(make_answer(result)), kind


def test_the_last_bars_add_up_to_the_time(every):
    for kind in ("forecast", "plan", "search", "simulation"):
        traffic = make_answer(every[kind]).to_dict()["traffic"]
        *bounds, rest = traffic["parts"].values()
        for time, *parts, waiting in zip(traffic["times"], *bounds, rest, strict=True):
            assert max(parts) + waiting == pytest.approx(max(time, max(parts)))
        page = unescape(render_page(make_answer(every[kind])))
        assert ("waiting, computation" if kind == "plan" else "start-up and waiting") in page


def test_every_standalone_chart_has_no_outline_around_texts(every):
    svg = make_figure(every["forecast"])._repr_svg_()
    style = re.search("<style>(.*?)</style>", svg)[1]
    for kind in ("best", "yours", "third", "other"):
        assert re.search(rf"\.toruscast text\.{kind}[^{{]*{{[^}}]*stroke: none", style), kind
    assert "var(" not in style
    assert "\n" not in svg.rstrip("\n")
