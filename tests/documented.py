"""Compare the output on a page with that of a run: words exactly, numbers within a tolerance."""

import math
import re

# Probabilities come from draws, and last digits from the order of sums: both may depend on the
# machine's libraries. Counts below thirty are exact.
SHARE, POINTS = 0.03, 1.0
# A number that is no part of a name, such as "random@2" or "swap-52-identity".
NUMBER = re.compile(r"(?<![\w.@-])([-+]?\d+(?:\.\d+)?)(?![\w@]|-\w)")


def agree(shown, given):
    """Whether two texts have equal words, and numbers within 3 % or one percentage point."""
    ours, theirs = NUMBER.split(shown), NUMBER.split(given)
    if [text.split() for text in ours[::2]] != [text.split() for text in theirs[::2]]:
        return False
    numbers = zip(ours[1::2], theirs[1::2], ours[2::2], strict=True)
    return all(
        math.isclose(float(a), float(b), rel_tol=SHARE)
        or (behind.lstrip().startswith("%") and abs(float(a) - float(b)) <= POINTS)
        for a, b, behind in numbers
    )


def not_given(shown, given):
    """Return the lines of a page that agree with no line and no wrapped sentence of an output."""
    lines = given.splitlines()
    known = list(lines)
    for k in range(len(lines)):
        known += re.split(r"(?<=\.) ", " ".join(" ".join(lines[k : k + 4]).split()))
    return [line for line in shown.splitlines() if not any(agree(line, each) for each in known)]
