"""Cells of tables of numbers, good and bad, and what reading them gives."""

from hypothesis import strategies as st

from toruscast.errors import InputError

ODD = ["-1", "+3", "007", "1.", ".5", "1e3", "1E-2", "-0", "nan", "inf", "1_0", "0x1", "1e999", "٣"]
ODD += [
    "9" * 18,
    "9" * 19,
    str(2**63),
    str(2**63 - 1),
    "0" * 99,
    "9" * 400,
    "",
    '"1"',
    "1d3",
    "1j",
    "True",
    "\x0b",
    "\u00a0",
    "1 #2",
]
CELLS = st.one_of(
    st.integers(0, 2**60).map(str), st.floats(0, 1e308).map(repr), st.sampled_from(ODD)
)


def outcome(read):
    """What ``read`` returns, or the words of its error."""
    try:
        return [(array.dtype, array.tolist()) for array in read()]
    except InputError as error:
        return str(error)
