"""Which candidate is fastest: forecasts first, then simulations where they decide.

Open `forecast.py` first; `race.py` chooses what to simulate, `posterior.py` holds the distribution
of the candidates' times, `answer.py` is what comes out.
"""
