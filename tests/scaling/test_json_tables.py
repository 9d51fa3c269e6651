"""Extra-P's JSON format of numbered tables: what stands twice or is not there is refused."""

import copy
import json
import re

import pytest

from toruscast.errors import InputError
from toruscast.scaling import read_measurements

TABLES = ["parameters", "metrics", "callpaths", "coordinates", "measurements"]
DOCUMENT = {
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


@pytest.fixture
def read(tmp_path):
    def read(document):
        path = tmp_path / "data.json"
        path.write_text(json.dumps(document))
        return read_measurements(path)

    return read


def changed(change):
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return document


def test_tables(read):
    (m,) = read(DOCUMENT)
    assert m.parameters == ("p", "n")
    assert m.points.tolist() == [[2, 10], [4, 10]]
    assert (m.callpaths, m.metrics) == (("main",), ("time",))
    assert m.values[0, 0].tolist() == [1.0, 1.5]


def test_measurements_need_no_ids(read):
    def without(document):
        for entry in document["measurements"]:
            del entry["id"]

    assert read(changed(without))[0].values[0, 0].tolist() == [1.0, 1.5]


@pytest.mark.parametrize("table", TABLES)
def test_an_id_twice(read, table):
    def again(document):
        document[table][1]["id"] = document[table][0]["id"]

    found = DOCUMENT[table][0]["id"]
    with pytest.raises(InputError, match=f"data.json: an id .* {table}: found {found}$"):
        read(changed(again))


@pytest.mark.parametrize("table", ["parameters", "metrics", "callpaths"])
def test_a_name_twice(read, table):
    def again(document):
        document[table][1]["name"] = document[table][0]["name"]

    found = DOCUMENT[table][0]["name"]
    with pytest.raises(InputError, match=f"data.json: a name .* {table}: found {found}$"):
        read(changed(again))


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (2, "a coordinate has a parameter_id twice: found 2"),
        (3, "a coordinate has an unknown parameter_id: found 3, expected one of 2, 1"),
    ],
)
def test_parameters_of_a_coordinate(read, parameter, message):
    def other(document):
        document["coordinates"][0]["parameter_value_pairs"][1]["parameter_id"] = parameter

    with pytest.raises(InputError, match=re.escape(message) + "$"):
        read(changed(other))


def test_a_coordinate_with_a_parameter_too_many(read):
    def more(document):
        pairs = document["coordinates"][0]["parameter_value_pairs"]
        pairs.append({"parameter_id": 7, "parameter_value": 1})

    with pytest.raises(InputError, match="unknown parameter_id: found 7"):
        read(changed(more))


def test_a_coordinate_without_a_parameter(read):
    def fewer(document):
        document["coordinates"][0]["parameter_value_pairs"].pop()

    with pytest.raises(InputError, match="found no entry with id 1"):
        read(changed(fewer))
