"""Transcripts of commands: what is typed, what is printed, and the exit code if it is not 0.

Lines that begin with ``$`` are commands, and the lines below them are what they print on stdout and
then on stderr. ``$ cat > FILE`` writes the lines that follow it, which begin with ``>``; ``$ cat``
and ``$ ls`` show what was written. ``...`` stands for any text, numbers agree within 2 %, and white
space is the same in any amount. Lines that begin with ``//`` are comments.

``python tests/transcripts/transcript.py`` writes what the commands print where it differs.
"""

import logging
import re
import shlex
import shutil
import tempfile
from contextlib import chdir
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path

from click.testing import CliRunner

from toruscast.cli import main

# Whether kernels are compiled depends on what an earlier run has kept.
logging.getLogger("toruscast._jit").setLevel(logging.ERROR)

HERE = Path(__file__).parent
NUMBER = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?(?!\w)")


@dataclass
class Step:
    """A command, its line in the transcript, and the lines below it."""

    command: str
    line: int
    content: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)


def parse(text):
    """Return the steps of a transcript."""
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("$ "):
            steps.append(Step(line[2:], number))
        elif line.startswith(">"):
            steps[-1].content.append(line[2:])
        elif line.strip() and not line.startswith("//"):
            steps[-1].output.append(line)
    return steps


def render(text, steps, printed):
    """Return the transcript with another output of each step."""
    lines = text.splitlines()
    for step, output in reversed([*zip(steps, printed, strict=True)]):
        begin = step.line + len(step.content)
        lines[begin : begin + len(step.output)] = output
    return "\n".join(lines) + "\n"


def run(step):
    """Return the lines that a step prints, and its exit code."""
    match shlex.split(step.command):
        case ["cat", ">", file]:
            Path(file).parent.mkdir(exist_ok=True)
            Path(file).write_text("\n".join(step.content) + "\n")
            return [], 0
        case ["cat", file]:
            return Path(file).read_text().splitlines(), 0
        case ["ls", folder]:
            return [" ".join(sorted(path.name for path in Path(folder).iterdir()))], 0
        case ["toruscast", *words]:
            result = CliRunner().invoke(main, words)
            lines = [line.rstrip() for line in (result.stdout + result.stderr).splitlines()]
            code = [f"[exit {result.exit_code}]"] if result.exit_code else []
            return [line for line in lines if line] + code, result.exit_code
    raise ValueError(f"line {step.line}: no command of a transcript: {step.command}")


def agrees(expected, found):
    """Whether an output is as expected."""
    spaced = (re.sub(r"\s+", " ", "\n".join(lines)).strip() for lines in (expected, found))
    expected, found = spaced
    pieces = [NUMBER.split(piece) for piece in expected.split("...")]
    number = f"({NUMBER.pattern})"
    pattern = ".*?".join(number.join(map(re.escape, piece)) for piece in pieces)
    match = re.fullmatch(pattern, found)
    numbers = NUMBER.findall(expected.replace("...", " ... "))
    return match is not None and all(
        isclose(float(a), float(b), rel_tol=0.02)
        for a, b in zip(numbers, match.groups(), strict=True)
    )


def place(folder):
    """Return a folder inside another one, with the files that transcripts read."""
    return shutil.copytree(HERE / "files", Path(folder) / "work")


def update(file):
    """Write what the commands of a transcript print where it differs."""
    text = file.read_text()
    steps = parse(text)
    with tempfile.TemporaryDirectory() as folder, chdir(place(folder)):
        found = [run(step)[0] for step in steps]
    pairs = zip(steps, found, strict=True)
    outputs = [step.output if agrees(step.output, new) else new for step, new in pairs]
    file.write_text(render(text, steps, outputs))


if __name__ == "__main__":
    for transcript in sorted(HERE.glob("*.txt")):
        update(transcript)
