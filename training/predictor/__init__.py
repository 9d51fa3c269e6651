"""The learner: features of a mapping in, its time and the uncertainty of that out.

Open `predictor.py` first. `model_file.py` writes and reads models, `feature_sets.py` names what
they learn from.
"""
