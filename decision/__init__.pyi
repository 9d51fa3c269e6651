# The public names of this package, each once. lazy_loader reads this file at run time.
from .evaluation import Evaluation as Evaluation
from .evaluation import evaluate as evaluate
from .loop import Budget as Budget
from .measured import RunModel as RunModel
from .measured import learn_runs as learn_runs
from .planning import Plan as Plan
from .planning import plan as plan
from .ranking import rank as rank
from .results import Cost as Cost
from .results import Ranking as Ranking
from .results import Verdict as Verdict
from .runs import NothingToLearnError as NothingToLearnError
from .runs import Runs as Runs
from .simulations import simulation_minutes as simulation_minutes
