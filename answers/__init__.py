"""Answers: made once from a result, drawn for a terminal, as a page and as figures."""
