# lazy_loader reads this file and imports each module when it is first used.

from . import blocks as blocks
from . import calibration as calibration
from . import evaluation as evaluation
from . import figures as figures
from . import html as html
from . import learned as learned
from . import plan as plan
from . import rank as rank
from . import scaling as scaling
from . import search as search
from . import simulation as simulation
from . import table as table
from . import terminal as terminal
