"""Arguments of a wrong type to public functions and classes raise reported errors."""

import inspect
import warnings
from types import ModuleType

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import toruscast as tc
from toruscast.errors import ReportedError

TORUS = tc.Torus((2, 2))
COMM = tc.CommGraph(4, [0, 1, 2, 3], [1, 2, 3, 0], [100.0, 200.0, 300.0, 400.0])
MAPPING = tc.TaskMapping([0, 1, 2, 3], TORUS, name="m")
OTHER = tc.TaskMapping([1, 0, 2, 3], TORUS, name="n")
PROBLEM = {"comm": COMM, "torus": TORUS}
MANY = {**PROBLEM, "mappings": [MAPPING, OTHER]}
SAMPLES = pd.DataFrame({"max_bytes": np.arange(9.0), "time": np.arange(1.0, 10.0)})
FEW_TREES = tc.TimePredictor(n_estimators=5)
WRONG = (None, 3.5, "text", [], {}, object())
# Values that replace one to three arguments of a valid call.
WRONG_INPUTS = (
    *WRONG,
    *(-1, 0, True, float("nan"), float("inf"), 10**6 + 0.5, "", "nan", b"x", 1j),
    *(np.zeros(0), np.array([np.nan, 1.0]), np.array(["a", "b"]), np.zeros((2, 3)), np.eye(3) - 2),
    *(
        [[0], [1, 2]],
        [None],
        [-1, 5],
        {"a": None},
        {1: 2},
        pd.DataFrame(),
        pd.DataFrame({"a": [0]}),
    ),
    *(COMM, TORUS, MAPPING, [MAPPING, COMM], tc.CommGraph(1, [], [], [])),
)
N_WRONG = 200
# Results that users do not construct.
RETURNED = {
    "Calibration",
    "Evaluation",
    "Explanation",
    "FlowSimulation",
    "InputError",
    "MeshLayouts",
    "Plan",
    "Ranking",
    "RunModel",
    "SearchResult",
    "Simulation",
    "Training",
}
# A dictionary, and classes that take arrays which toruscast has checked.
OTHERS = {"FEATURES", "Machine", "RoutedTraffic", "above_mean", "near_top", "step_time"}
# Required arguments of each function; the others have their defaults.
GIVEN = {
    "Budget": {},
    "CommGraph": {"n_tasks": 2, "src": [0], "dst": [1], "nbytes": [1.0]},
    "Hosts": {"names": ["a", "b"], "node": [0, 1], "torus": TORUS},
    "MeshAxes": {"names": ("x",), "sizes": (4,)},
    "MeshTraffic": {"collective": "allreduce", "nbytes": 8.0},
    "MappingProblem": {"workload": COMM, "torus": TORUS},
    "Network": {},
    "Runs": {"names": ("m",), "seconds": np.array([1.0]), "which": np.array([0])},
    "TaskMapping": {"node": [0, 1], "torus": TORUS},
    "TimePredictor": {},
    "Torus": {"shape": (2, 2)},
    "Workload": {"phases": [COMM]},
    "candidates": {**PROBLEM, "n": 3},
    "calibrate": {"times": "osu.csv", "torus": TORUS},
    "evaluate": {"samples": SAMPLES, "features": ["max_bytes"], "n_splits": 1, "model": FEW_TREES},
    "explain": {**PROBLEM, "mapping": MAPPING},
    "features": {**MANY, "features": ["max_bytes"]},
    "rank": {**MANY, "budget": 0},
    "feature_names": {},
    "from_networkx": {"graph": nx.cycle_graph(3)},
    "from_pandas": {"table": pd.DataFrame({"src": [0], "dst": [1], "nbytes": [1.0]})},
    "from_scipy": {"nbytes": sparse.eye_array(3, format="csr")},
    "learn_runs": {**MANY, "times": {"m": 1.0, "n": 2.0}, "simulate": 0},
    "load_predictor": {"path": "model.npz"},
    "plan": {**MANY, "simulate": 0},
    "mesh": {
        "torus": TORUS,
        "axes": "x=2,y=2",
        "traffic": "x:allreduce:1MB",
        "simulate": 0,
    },
    "read_comm": {"path": "g.edges"},
    "read_hlo": {"path": "step.hlo"},
    "read_hosts": {"path": "hosts.csv", "torus": TORUS},
    "read_mapping": {"path": "m.map", "torus": TORUS},
    "read_mappings": {"path": "m.map", "torus": TORUS},
    "read_times": {"path": "t.csv"},
    "read_torus": {"path": "torus.toml"},
    "read_workload": {"path": "g.edges"},
    "register_feature": {"name": "of_a_test"},
    "save_predictor": {"model": FEW_TREES, "path": "out.npz"},
    "search": {**PROBLEM, "n_sweeps": 1, "seconds": 0.1, "objective": "hop_bytes"},
    "simulate": {**PROBLEM, "mapping": MAPPING},
    "simulate_flows": {**PROBLEM, "mapping": MAPPING},
    "torus": {"of": "2x2"},
    "train": {**PROBLEM, "n": 6, "n_splits": 1, "model": FEW_TREES},
    "unregister_feature": {"name": "of_a_test"},
    "which_slice": {
        "n_chips": 4,
        "axes": "x=4",
        "traffic": "x:allreduce:1MB",
        "machines": "tpu_v5e",
        "simulate": 0,
    },
    "write_comm": {"comm": COMM, "path": "out.edges"},
    "write_mapping": {"mapping": MAPPING, "path": "out.map", "torus": TORUS},
    "write_mappings": {"mappings": [MAPPING], "folder": "out", "torus": TORUS},
    "write_report": {"answer": COMM, "path": "out.html"},
    "write_torus": {"torus": TORUS, "path": "out.toml"},
    "strategies.make": {"name": "identity", **PROBLEM},
    "strategies.sample": {**PROBLEM, "n": 3},
    "strategies.variants": dict(PROBLEM),
    "patterns.halo_2d": {"grid": (2, 2), "nbytes": 8.0},
    "patterns.halo_3d": {"grid": (2, 2, 2), "nbytes": 8.0},
    "patterns.ring": {"n_tasks": 4, "nbytes": 8.0},
    "patterns.all_to_all": {"n_tasks": 4, "nbytes": 8.0},
    "patterns.pairwise_exchange": {"n_tasks": 4, "nbytes": 8.0},
    "patterns.pf3d": {"grid": (2, 2, 2)},
    "patterns.random_pairs": {"n_tasks": 4, "degree": 1, "nbytes": 8.0},
    "patterns.sub_all_to_all": {"n_tasks": 4, "nbytes": 8.0, "group": 2},
    "patterns.xor_exchange": {"n_tasks": 4, "nbytes": 8.0},
}


def named(name):
    found = tc
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tc.write_comm(COMM, "g.edges")
    tc.write_mapping(MAPPING, "m.map", torus=TORUS)
    tc.write_torus(TORUS, "torus.toml")
    (tmp_path / "t.csv").write_text("mapping,time\nm,1\nn,2\n")
    (tmp_path / "hosts.csv").write_text("host,x,y\na,0,0\nb,0,1\n")
    (tmp_path / "osu.csv").write_text(
        "size,latency\n8,1.5\n64,1.6\n4096,3.5\n65536,20\n1048576,250\n"
    )
    return tmp_path


def test_every_public_name_is_tried():
    public = {name for name in dir(tc) if not isinstance(getattr(tc, name), ModuleType)}
    assert public - RETURNED - OTHERS - {"__version__"} == {
        name for name in GIVEN if "." not in name
    }


@pytest.mark.parametrize("name", GIVEN)
def test_a_wrong_type_is_an_error_that_is_reported(files, name):
    function, given = named(name), GIVEN[name]
    faults = []
    for each in inspect.signature(function).parameters.values():
        if each.kind == each.VAR_KEYWORD:
            continue
        for wrong in WRONG:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    function(**{**given, each.name: wrong})
                except ReportedError:
                    pass
                except Exception as error:
                    faults.append(f"{each.name}={wrong!r}: {error!r}")
    assert not faults


def reported(function, arguments):
    """Call a function; return the error if it is not one of the errors for users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**arguments)
        except ReportedError:
            return None
        except Exception as error:
            return f"{arguments}: {error!r}"
        return None


@pytest.mark.parametrize("name", GIVEN)
def test_200_wrong_inputs_are_refused_in_words(files, name):
    function, given = named(name), GIVEN[name]
    parameters = [
        each.name
        for each in inspect.signature(function).parameters.values()
        if each.kind != each.VAR_KEYWORD
    ]
    rng = np.random.default_rng(len(name))
    faults = []
    for _ in range(N_WRONG):
        wrong = dict(given)
        for which in rng.choice(parameters, rng.integers(1, 4)):
            wrong[which] = WRONG_INPUTS[rng.integers(len(WRONG_INPUTS))]
        if rng.random() < 0.1:
            # The same arguments in another order.
            wrong = dict(
                zip(given, rng.permutation(np.array([*given.values()], object)), strict=True)
            )
        faults.append(reported(function, wrong))
    assert list(filter(None, faults)) == []


@pytest.mark.parametrize(
    "name", [name for name in GIVEN if GIVEN[name] and name != "patterns.pf3d"]
)
def test_a_missing_argument_is_a_type_error_or_reported(files, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TypeError, ReportedError), match=r"missing.*argument|expected|no "):
            named(name)()
