"""How good forecasts are: metrics, splits, and the gain of a feature.

Open `evaluate.py` first; `metrics.py` defines RCC, R^2 and regret.
"""
