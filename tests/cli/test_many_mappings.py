"""Tables of very many mappings are written row by row."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast.cli import features as command
from toruscast.cli import main
from toruscast.formats import write_comm, write_mappings
from toruscast.formats.readers import each_mapping, mapping_options
from toruscast.mapping import Torus, patterns, strategies

HALO, TORUS = patterns.halo_2d((4, 4), 4096, periodic=True), Torus((4, 4))
LINE = "features --comm halo.csv --torus 4x4 --features max_bytes,max_dilation"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_comm(HALO, tmp_path / "halo.csv")

    def call(line, code=0):
        result = CliRunner().invoke(main, line.split())
        assert result.exit_code == code, (line, result.stdout, result.stderr)
        return result

    return call


def test_blocks_of_a_table_make_one_file(run):
    text = run(f"{LINE} --candidates 1500 --csv t.csv --parquet t.parquet --json t.json").stdout
    whole = tc.features(
        HALO,
        TORUS,
        tc.candidates(HALO, TORUS, n=1500),
        features=["max_bytes", "max_dilation"],
    )
    pd.testing.assert_frame_equal(pd.read_csv("t.csv", index_col="mapping"), whole)
    pd.testing.assert_frame_equal(pd.read_parquet("t.parquet"), whole)
    with open("t.json") as file:  # noqa: PTH123
        assert len(json.load(file)["features"]) == 1500
    assert f"{1500 - command.MAX_ROWS} more mappings in --csv" in text
    assert "1500 mappings of 16 tasks on torus 4x4: 1 task a node." in text
    rows = run(f"{LINE} --candidates 1500 --csv -").stdout.splitlines()
    assert rows[0] == "mapping,max_bytes,max_dilation"
    assert len(rows) == 1501


def test_files_of_a_folder_are_read_one_after_the_other(run, tmp_path):
    mappings = strategies.sample(HALO, TORUS, n=5)
    write_mappings(mappings, tmp_path / "maps")
    read = each_mapping([tmp_path / "maps"], mapping_options(TORUS))
    _, first = next(read)
    last = sorted(mapping.name for mapping in mappings)[-1]
    (tmp_path / "maps" / f"{last}.map").write_text("0 0 0\n0 0 x\n")
    assert first.name == sorted(mapping.name for mapping in mappings)[0]
    text = run(f"{LINE} --mappings maps --csv t.csv", 2).stderr
    assert f"maps/{last}.map:2: " in text
    assert len(text.splitlines()) == 1
    assert not (tmp_path / "t.csv").exists()
    run(f"{LINE} --mappings halo.csv --csv t.csv", 2)


def test_mappings_of_one_file_are_read_one_after_the_other(tmp_path):
    path = tmp_path / "all.csv"
    lines = [f"m{number},{','.join(map(str, range(16)))}" for number in range(50)]
    path.write_text("\n".join([*lines, "m0,1"]))
    read = each_mapping([path], mapping_options(TORUS))
    assert [next(read)[1].name for _ in range(50)][-1] == "m49"
    with pytest.raises(ValueError, match=r"all\.csv:51: duplicate mapping name"):
        next(read)


def test_mappings_of_several_files_and_folders_are_read_together(run, tmp_path):
    mappings = strategies.sample(HALO, TORUS, n=4)
    write_mappings(mappings[:2], tmp_path / "maps")
    for mapping in mappings[2:]:
        (tmp_path / f"{mapping.name}.txt").write_text("\n".join(map(str, mapping.node)))
    words = [f"--mappings {mapping.name}.txt" for mapping in mappings[2:]]
    run(f"{LINE} --mappings maps {' '.join(words)} --csv t.csv")
    assert [*pd.read_csv(tmp_path / "t.csv")["mapping"]] == [
        *sorted(mapping.name for mapping in mappings[:2]),
        *(mapping.name for mapping in mappings[2:]),
    ]
    text = run(f"{LINE} --mappings maps {words[0]} {words[0]} --csv t.csv", 2).stderr
    assert f"{mappings[2].name}.txt: duplicate mapping name" in text
