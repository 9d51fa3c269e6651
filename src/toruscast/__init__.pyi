# The public names of toruscast, each once. lazy_loader reads this file at run time.
from . import answers as answers
from . import datasets as datasets
from . import features as features
from . import mapping as mapping
from . import routing as routing
from . import scaling as scaling
from . import simulation as simulation
from . import training as training
from .answers.write import write_report as write_report
from .errors import InputError as InputError
from .features import extract as extract
from .mapping import (
    CommGraph as CommGraph,
)
from .mapping import (
    Hosts as Hosts,
)
from .mapping import (
    Network as Network,
)
from .mapping import (
    TaskMapping as TaskMapping,
)
from .mapping import (
    Torus as Torus,
)
from .mapping import (
    Workload as Workload,
)
from .mapping import (
    from_networkx as from_networkx,
)
from .mapping import (
    from_pandas as from_pandas,
)
from .mapping import (
    from_scipy as from_scipy,
)
from .mapping import (
    machine as machine,
)
from .mapping import (
    machines as machines,
)
from .mapping import (
    parse_torus as parse_torus,
)
from .mapping import (
    patterns as patterns,
)
from .mapping import (
    strategies as strategies,
)
from .mapping.formats import (
    read_comm as read_comm,
)
from .mapping.formats import (
    read_hosts as read_hosts,
)
from .mapping.formats import (
    read_mapping as read_mapping,
)
from .mapping.formats import (
    read_mappings as read_mappings,
)
from .mapping.formats import (
    read_times as read_times,
)
from .mapping.formats import (
    read_torus as read_torus,
)
from .mapping.formats import (
    read_workload as read_workload,
)
from .mapping.formats import (
    write_comm as write_comm,
)
from .mapping.formats import (
    write_mapping as write_mapping,
)
from .mapping.formats import (
    write_mappings as write_mappings,
)
from .mapping.formats import (
    write_torus as write_torus,
)
from .mapping.formats.graphs.hlo import read_hlo as read_hlo
from .search.explain import explain as explain
from .search.search import search as search
from .simulation import simulate as simulate
from .simulation import simulate_flows as simulate_flows
from .training import (
    Budget as Budget,
)
from .training import (
    Forecast as Forecast,
)
from .training import (
    Runs as Runs,
)
from .training import (
    TimePredictor as TimePredictor,
)
from .training import (
    forecast as forecast,
)
from .training import (
    learn_runs as learn_runs,
)
from .training import (
    load_predictor as load_predictor,
)
from .training import (
    plan as plan,
)
from .training import (
    save_predictor as save_predictor,
)
from .training import (
    train_for as train_for,
)
from .training.measured.calibrate import calibrate as calibrate
from .training.mesh import MeshForecast as MeshForecast
from .training.mesh import mesh as mesh

__version__: str
