"""Random combinations of options give an answer, or one line and an exit code."""

import pytest
from option_cases import LINES, cases, fault_of, leaves, write_files

# These compile other simulators for a minute; `tools/option_fuzz.py` includes them.
SLOW = ("--routing", "deadlock=dateline", "adaptive", "by_size", "--check")


def test_every_command_is_tried():
    assert {path for path, _ in leaves()} == set(LINES)


@pytest.mark.parametrize("path", LINES)
def test_options_end_with_an_answer_or_one_line(tmp_path, monkeypatch, path):
    tried = [words for words in cases(path, seed=1, n=12) if not set(SLOW) & set(words)]
    for number, words in enumerate(tried):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_files(folder)
        fault, _ = fault_of(words, seconds=300)
        assert fault is None, words
