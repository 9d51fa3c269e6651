# The public names of this package, each once. lazy_loader reads this file at run time.
from .flows import FlowSimulation as FlowSimulation
from .flows import simulate_flows as simulate_flows
from .results import Simulation as Simulation
from .simulator import simulate as simulate
