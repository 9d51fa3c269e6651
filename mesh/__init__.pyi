# The public names of this package, each once. lazy_loader reads this file at run time.
from .hlo import read_hlo as read_hlo
from .layouts import RankedLayout as RankedLayout
from .ranking import MeshLayouts as MeshLayouts
from .ranking import SliceRanking as SliceRanking
from .ranking import mesh as mesh
from .ranking import step_time as step_time
from .ranking import which_slice as which_slice
from .traffic import MeshAxes as MeshAxes
from .traffic import MeshTraffic as MeshTraffic
