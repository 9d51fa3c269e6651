"""Random combinations of options: one line and an exit code, or an answer."""

import pytest
from option_cases import LINES, cases, fault_of, leaves, write_files

# Simulations of other networks compile for a minute; `tools/option_fuzz.py` has them too.
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
