"""Files that no reader of scaling takes: one error on one line, with file, line and what was found.

Each row holds the content of a file, the line of the fault (None: the file as a whole) and the
beginning of what was found there (None: not checked).
"""

import copy
import json

import pytest

from toruscast.errors import InputError
from toruscast.scaling import (
    JOB_COLUMNS,
    read_application,
    read_formulas,
    read_jobs,
    read_measurements,
)

DIGITS = "9" * 5000
TABLES = [
    ("p,time\n2,1\n", 1, "p,time"),
    ("value,metric\n2,a\n", 1, "value,metric"),
    ("p,value,Value\n2,1,1\n", 1, "value"),
    ("p,p,value\n2,1,1\n", 1, "p"),
    (",p,value\n0,2,1\n", 1, ",p,value"),
    ("p,value\n2,1\n\n4,x\n", 4, "x"),
    ("p;n;value\n2;10;1,5\n", 2, "1,5"),
    ("p,value\n2,1\n4,\n", 3, "4,"),
    ("p,value\n2,1,3\n", 2, "2,1,3"),
    ('p,value\n"2,1\n', 2, "unexpected end"),
    ("p,value\n", None, None),
    ("p,value\n-2,1\n", 2, "-2"),
]
TEXTS = [
    ("", None, "nothing"),
    ("# nothing\n", None, "nothing"),
    ("HELLO world\n", None, "HELLO world"),
    ("PARAMETER p,n\nPOINTS 1,2\n", None, None),
    ("PARAMETER p\nPOINTS 2 4\nDATA 1\nDATA x\n", 4, "x"),
    ("PARAMETER p\nPOINTS 2 4\nDATA 1\nHELLO x\n", 4, "HELLO"),
    ("PARAMETER p\nPOINTS 2\nDATA 1\nDATA 2\n", 4, None),
    ("PARAMETER p\nPOINTS 2\nDATA nan\n", 3, "nan"),
    ("PARAMETER p\nPOINTS 2\nDATA 1 inf\n", 3, "inf"),
    ("PARAMETER p\nPOINTS 2\nDATA 1e308\n", 3, "1e+308"),
    ("POINTS 2\nDATA 1\n", 1, None),
    ("PARAMETER p n\nPOINTS (2)\n", 2, "2"),
    ("PARAMETER p\nPOINTS (1 2)\n", 2, "1 2"),
    ("PARAMETER p n\nPOINTS (1 1 (2 2) (4 4)\nDATA 1\n", 2, "(1 1"),
    ("PARAMETER p n\nPOINTS (1 1) 2 2\nDATA 1\n", 2, "2 2"),
    ("PARAMETER p n\nPOINTS (((1) (1)))\nDATA 1\n", 2, "( )"),
    ("PARAMETER p\nPOINTS 2\nREGION a\nDATA 1\nREGION b\nDATA 1\nREGION a\nDATA 2\n", 8, None),
    ("PARAMETER p\nPOINTS 2 4 8\nREGION a\nDATA 1\nREGION b\n" + "DATA 1\n" * 3, 3, "1"),
    ("PARAMETER p\nPOINTS 4 4 16\nDATA 1\nDATA 2\nDATA 3\n", 2, "4"),
    ("PARAMETER p n\nPOINTS (1 2) (2 2)\nPOINTS (1,2)\n", 3, "1 2"),
    ("PARAMETER p\nPOINTS 2\nPARAMETER n\n", 3, "n"),
    ("PARAMETER\n", 1, None),
    ("DATA\n", 1, None),
    ("PARAMETER p\nPOINTS 2\n", None, None),
    ("PARAMETER p\nPOINTS -2 4\nDATA 1\nDATA 2\n", 2, "-2"),
]
LINE = '{"params": {"p": 1}, "value": %s}\n'
LINES = [
    (LINE % 1 + '{"params": {"q": 1}, "value": 1}', 2, "['q']"),
    (LINE % 1 + "[]", 2, "[]"),
    ('{"params": "p", "value": 1}', 1, '{"params"'),
    ('{"params": [0], "value": 1}', 1, '{"params"'),
    ('{"params": {}, "value": 1}', 1, '{"params"'),
    ('{"params": {"p": 1}}', 1, '{"params"'),
    ('{"params": {"p": 1}, "value": 1, "callpath": null}', 1, "None"),
    ('{"params": {"p": 1}, "value": 1, "metric": ["a"]}', 1, "['a']"),
    (LINE % 1 + LINE % DIGITS[:400], 2, "999"),
    (LINE % 1 + LINE % DIGITS, 2, None),
    (LINE % DIGITS, 1, None),
    (LINE % 1 + "[" * 100_000, 2, None),
    (LINE % 1 + '{"params": {"p": 2}, "value": 1', 2, "Expecting"),
]
JSON = '{"parameters": ["p"], "measurements": {"f": {"t": %s}}}'
DOCUMENTS = [
    ("{", 1, "Expecting"),
    ("{" + '"a":[' * 200_000, 1, None),
    ("{}", None, "no key parameters"),
    ("[1, 2]", None, "[1, 2]"),
    ('{"parameters": ["p"], "measurements": {"f": 3}}', None, None),
    ('{"parameters": ["p"], "measurements": [3]}', None, None),
    (JSON % '[{"point": [1, 2], "values": [1]}]', None, "1 2"),
    (JSON % '[{"point": [1], "values": [true]}]', None, "True"),
    (JSON % '[{"point": [1], "values": [null]}]', None, "null"),
    (JSON % '[{"point": [1], "value": [1]}]', None, "no key values"),
    (JSON % '[{"point": "1", "values": [1]}]', None, None),
    (JSON.replace('["p"]', '["p"], "parameters": ["p"]') % "[]", None, "parameters"),
    *((JSON.replace('["p"]', names) % "[]", None, None) for names in ('"pn"', "[]", "[0]")),
]
NUMBERED = {
    "parameters": [{"id": 2, "name": "n"}, {"id": 1, "name": "p"}],
    "metrics": [{"id": 1, "name": "time"}, {"id": 2, "name": "bytes"}],
    "callpaths": [{"id": 1, "name": "main"}, {"id": 2, "name": "send"}],
    "coordinates": [
        {
            "id": k,
            "parameter_value_pairs": [
                {"parameter_id": 2, "parameter_value": 10},
                {"parameter_id": 1, "parameter_value": p},
            ],
        }
        for k, p in ((1, 2), (2, 4))
    ],
    "measurements": [
        {"id": k, "metric_id": 1, "callpath_id": 1, "coordinate_id": c, "value": v}
        for k, (c, v) in enumerate([(1, 1.0), (1, 1.5), (2, 3.0)])
    ],
}


def changed(*path, to):
    """The document of numbered tables with another entry at a path."""
    document = entry = copy.deepcopy(NUMBERED)
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = to
    return json.dumps(document)


PAIRS = ("coordinates", 0, "parameter_value_pairs")
NUMBERED_TABLES = [
    *((changed(table, 1, "id", to=NUMBERED[table][0]["id"]), None, None) for table in NUMBERED),
    *(
        (changed(table, 1, "name", to=NUMBERED[table][0]["name"]), None, NUMBERED[table][0]["name"])
        for table in ("parameters", "metrics", "callpaths")
    ),
    (changed("metrics", 0, "name", to=3), None, "3"),
    (changed(*PAIRS, 1, "parameter_id", to=2), None, "2"),
    (changed(*PAIRS, 1, "parameter_id", to=3), None, "parameter_id 2, 3"),
    (changed(*PAIRS, to=NUMBERED["coordinates"][0]["parameter_value_pairs"][:1]), None, None),
    (changed("measurements", 0, "callpath_id", to=7), None, "no key 7"),
]
HEADER = ",".join(JOB_COLUMNS)
JOBS = [
    ("", 1, "none"),
    (f"{HEADER}\n", None, None),
    ("job,elapsed\na,1\n", 1, "job, elapsed"),
    (f"{HEADER},job\n", 1, "job"),
    (f"# x\n{HEADER}\n# y\na,b,1,1,1,1\n", 4, "a,b,1,1,1,1"),
    (f"{HEADER}\na,b,1,1,1,1,x\n", 2, "x"),
    (f"{HEADER}\na,b,1,1,1,1,\n", 2, "nothing"),
    (f"{HEADER}\na,b,1,1,1,1,nan\n", 2, "nan"),
    (f"{HEADER}\na,b,1,1,1,-1,5\n", 2, "-1"),
    (f"{HEADER}\na,b,1,0,1,1,5\n", 2, "0"),
    (f"{HEADER}\na,b,1,inf,1,1,5\n", 2, "inf"),
    (f"{HEADER}\n,b,1,1,1,1,5\n", 2, "nothing"),
    (f'{HEADER}\n"a,b,1,1,1,1,5\n', 2, "unexpected end"),
    (f"{HEADER}\na,b,1e-4,1e7,1,1,5\nc,b,2e-4,1e7,1,1,5\n", None, "0.0001, 0.0002"),
    (f"{HEADER}\na,b,1e-4,1e7,1,1,5\nc,d,40,1e7,1,1,5\n", 3, "40"),
    (f"{HEADER}\na,b,1e-4,112,1,1,5\n", 2, "112"),
]
MODEL = '{"models": [{"callpath": "a", "metric": "m", "terms": [%s]}]}'
MODELS = [
    ("[", 1, "Expecting"),
    ("{}", None, None),
    ('{"models": [3]}', None, None),
    (MODEL % '{"coefficient": "x"}', None, None),
    (MODEL % '{"coefficient": 1, "exponents": {"p": [1e999, 0]}}', None, None),
]
TOML = [
    ("x", None, None),
    ("", None, None),
    ('requirements = "n"', None, "'n'"),
    ("more = 1\n[requirements]\n", None, "more"),
    ("notes = [1]\n[requirements]\n", None, "1"),
    ("notes = 5\n[requirements]\n", None, "5"),
    ("smallest = true\n[requirements]\n", None, "True"),
    ('smallest = -1\n[requirements]\nbytes_used="n"', None, "-1"),
    (f'smallest = 1{"0" * 400}\n[requirements]\nbytes_used="n"', None, "inf"),
    ('[requirements]\nbytes_used = "n log n"', None, "n"),
    (" " * 1_000_001, None, None),
]
APPLICATIONS = [
    ('{"requirements": {}', 1, "Expecting"),
    ("[" * 100_000, None, None),
    ("[]", None, None),
    ('{"requirements": {"bytes_used": "n", "bytes_used": "2 * n"}}', None, "bytes_used"),
    ('{"requirements": {"bytes_used": "n"}, "smallest": NaN}', None, "nan"),
]
ROWS = [
    *((read_measurements, "data.txt", *row) for row in TABLES + TEXTS + LINES),
    *((read_measurements, "data.json", *row) for row in DOCUMENTS + NUMBERED_TABLES),
    *((read_jobs, "jobs.csv", *row) for row in JOBS),
    *((read_formulas, "models.json", *row) for row in MODELS),
    *((read_application, "solver.toml", *row) for row in TOML),
    *((read_application, "solver.json", *row) for row in APPLICATIONS),
    (read_application, "solver.yaml", "x", None, ".yaml"),
]


@pytest.mark.parametrize(
    ("read", "name", "content", "line", "found"),
    ROWS,
    ids=[f"{name}-{content[:40]!r}" for _, name, content, _, _ in ROWS],
)
def test_refused(tmp_path, read, name, content, line, found):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert str(caught.value.found).startswith("" if found is None else found)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_measurements, read_jobs, read_application, read_formulas])
def test_what_is_no_text_file(tmp_path, read):
    (tmp_path / "wide.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.toml").mkdir()
    for name in ("absent.toml", "wide.toml", "folder.toml"):
        with pytest.raises(InputError) as caught:
            read(tmp_path / name)
        assert caught.value.file == str(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("p,value\n2,1\n", {"reduce": "max"}),
        ("p,value\n2,1\n", {"parameters": ["p"]}),
        ("nprocs,rep1,rep2\n8,1,2\n", {"value": "time"}),
        ("PARAMETER p\nPOINTS 2\nDATA 1\n", {"reduce": "max"}),
        ("PARAMETER p\nPOINTS 2\nDATA 1\n", {"value": "time"}),
        (JSON % '[{"point": [1], "values": [1]}]', {"parameters": ["p"]}),
    ],
)
def test_options_that_a_format_does_not_have(tmp_path, content, options):
    path = tmp_path / "data"
    path.write_text(content)
    with pytest.raises(InputError, match="data"):
        read_measurements(path, **options)
