"""Fitted models as input of codesign and compose, as files and as objects."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toruscast.cli import main
from toruscast.errors import InputError
from toruscast.scaling import Application, Formula, PMNFRegressor, read_application, read_formulas


def run(*arguments):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def models(tmp_path):
    rows = [
        (path, metric, p, n, value)
        for p in (4, 8, 16, 32, 64)
        for n in (100, 200, 300, 400, 500)
        for path, metric, value in (
            ("main", "bytes_used", 1e5 * n + 200 * p),
            ("main", "flop", 30.0 * n**1.5),
        )
    ]
    table, out = tmp_path / "runs.csv", tmp_path / "models.json"
    pd.DataFrame(rows, columns=["callpath", "metric", "p", "n", "value"]).to_csv(table, index=False)
    run("pmnf", "fit", table, "--json", out)
    return out


def test_a_file_of_models_is_read_in_full_precision(models):
    formulas = read_formulas(models)
    assert set(formulas) == {("main", "bytes_used"), ("main", "flop")}
    assert float(formulas["main", "flop"](p=7, n=900)) == pytest.approx(30 * 900**1.5, rel=1e-9)


def test_from_measurements_to_an_upgrade(models):
    app = read_application(models)
    assert app.need("bytes_used", p=1000, n=50) == pytest.approx(1e5 * 50 + 200 * 1000, rel=1e-9)
    out = run("codesign", "upgrade", "--app", models, "--processes", "64", "--memory", "1e9")
    assert "flop" in out


def test_an_application_names_models_in_a_file(models):
    own = models.parent / "app.toml"
    own.write_text(
        '[requirements]\nbytes_used = {file = "models.json", metric = "bytes_used"}\n'
        'flop = "2 n log2(n)"\n'
    )
    assert read_application(own).need("bytes_used", p=4, n=100) == pytest.approx(1e7 + 800)
    own.write_text('[requirements]\nbytes_used = {file = "models.json"}\n')
    with pytest.raises(InputError, match=r"needs one model: found main, bytes_used; main, flop"):
        read_application(own)
    own.write_text('[requirements]\nbytes_used = {path = "models.json"}\n')
    with pytest.raises(InputError, match="bad bytes_used: found path"):
        read_application(own)


def test_compose_takes_a_file_of_models(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "tasks.json"
    rows = [
        (t, n, f(n)) for n in (4, 8, 16, 32, 64) for t, f in (("a", lambda n: 3 * n), ("b", float))
    ]
    pd.DataFrame(rows, columns=["callpath", "n", "value"]).to_csv(table, index=False)
    run("pmnf", "fit", table, "--json", out)
    text = run("pmnf", "compose", "pipe(tpool_2(a), b)", "--task", f"a={out}", "--task", f"b={out}")
    assert "1.5 n" in text
    result = CliRunner().invoke(main, ["pmnf", "compose", "c", "--task", f"c={out}"])
    assert result.exit_code == 2
    assert "several models" in result.output


def test_fitted_objects_are_requirements():
    at = pd.DataFrame(
        {"p": np.repeat([4.0, 8, 16, 32, 64], 5), "n": [100.0, 200, 300, 400, 500] * 5}
    )
    fitted = PMNFRegressor(warn=False).fit(at, 5 + 0.1 * at["n"] ** 1.5)
    app = Application("a", {"bytes_used": fitted, "flop": Formula("2 n"), "bytes_sent": "n^(1/2)"})
    assert app.need("bytes_used", p=2, n=1e4) == pytest.approx(5 + 0.1 * 1e6, rel=1e-6)
    assert app.need("bytes_sent", p=2, n=1e4) == 100


def test_from_measurements_to_upgrades_in_one_command(models, tmp_path):
    table = models.parent / "runs.csv"
    given = ("codesign", "upgrade", "--app", table, "--processes", 64, "--memory", 1e9)
    at_once = run(*given, "--csv", "-")
    fitted = run(*given[:3], models, *given[4:], "--csv", "-")
    assert at_once == fitted.replace("models", "runs")
    rows = pd.read_csv(io.StringIO(run(*given, "--by", "2,4", "--csv", "-")))
    assert rows.groupby("by")["ratio"].count().tolist() == [6, 6]
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(table.read_text().replace("bytes_used", "VmPeak").replace("main", "solve"))
    named = run(*given[:3], renamed, *given[4:], "--metric", "bytes_used=VmPeak", "--csv", "-")
    assert named.replace("renamed", "runs") == at_once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--app", "kripke", "--metric", "bytes_used=x"), "--metric needs --app FILE"),
        (("--app", "kripke", "--callpath", "x"), "--callpath needs --app FILE"),
        (("--app", "solver.csv", "--printed"), "--printed needs a published application"),
        (("--app", "solver.csv", "--metric", "flopp=y"), "bad requirement: found flopp"),
        (("--app", "solver.csv", "--metric", "flop=y"), "bad metric of flop: found y"),
        (("--app", "solver.csv", "--metric", "flop=y", "--metric", "flop=z"), "given twice"),
        (("--app", "solver.csv", "--callpath", "y"), "bad call path: found y"),
    ],
)
def test_options_that_name_nothing_are_refused(monkeypatch, tmp_path, options, message):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{p},{n},{n}\n" for p in (2, 4, 8) for n in (10, 20, 40))
    Path("solver.csv").write_text("p,n,value\n" + rows)
    result = CliRunner().invoke(main, ["codesign", "models", *options])
    assert result.exit_code == 2
    assert message in result.output
