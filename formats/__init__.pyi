# The public names of this package, each once. lazy_loader reads this file at run time.
from .readers import read_comm as read_comm
from .readers import read_hosts as read_hosts
from .readers import read_mapping as read_mapping
from .readers import read_mappings as read_mappings
from .readers import read_torus as read_torus
from .readers import read_workload as read_workload
from .readers import torus as torus
from .readers import write_comm as write_comm
from .readers import write_mapping as write_mapping
from .readers import write_mappings as write_mappings
from .readers import write_torus as write_torus
from .times import read_runs as read_runs
from .times import read_times as read_times
