"""Commands print what the transcripts beside this file say."""

from pathlib import Path

import pytest
from transcripts.transcript import HERE, agrees, parse, place, run

TRANSCRIPTS = sorted(HERE.glob("*.txt"))


def contents():
    return {path: path.is_file() and path.read_bytes() for path in Path().rglob("*")}


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_commands_print_what_the_transcript_says(file, tmp_path, monkeypatch):
    monkeypatch.chdir(place(tmp_path))
    for step in parse(file.read_text()):
        before = contents()
        printed, code = run(step)
        where = f"{file}:{step.line}: $ {step.command}"
        assert agrees(step.output, printed), "\n".join([where, *printed])
        if code == 2:
            assert contents() == before, where
            if "toruscast doctor" not in step.command:
                # An error in one line, and nothing on stdout.
                assert len(printed) == 2, where
                assert printed[0].startswith("toruscast: error: "), where


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("3 links", "3  links\n", True),
        ("takes 1.00 us, ... nodes", "takes 1.01 us, 16 of 16\n nodes", True),
        ("takes 1.00 us", "takes 1.05 us", False),
        ("torus 4x4", "torus 4x5", False),
        ("a ... b", "a b c", False),
    ],
)
def test_outputs_agree_within_a_tolerance(expected, found, same):
    assert agrees([expected], [found]) == same
