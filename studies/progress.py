"""How far the simulation of the experiments' samples has come, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toruscast.cli.output import Output
from toruscast.cli.progress import bar_on_stderr


@contextmanager
def progress_of_blocks(output: Output, n_blocks: int) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function of (block, samples done, all its samples).

    It moves a bar; without a terminal, a line tells when a block begins and when it is done.
    """
    started: dict[str, int] = {}

    def numbered(block: str, done: int) -> str:
        started.setdefault(block, done)
        return f"block {len(started)} of {n_blocks}: {block}"

    def tell(block: str, done: int, total: int) -> None:
        first = block not in started
        text = numbered(block, done)
        if first or done == total:
            output.message(f"{text}: {done} of {total} samples")

    with bar_on_stderr("Choosing mappings", output.quiet) as shown:
        if shown is None:
            yield tell
            return
        bar, task = shown

        def move(block: str, done: int, total: int) -> None:
            first = block not in started
            text = numbered(block, done)
            if first:
                # The time that remains is that of this block.
                bar.reset(task, total=total, description=text)
            bar.update(task, completed=done, count=f"{done}/{total}")
            if done == total:
                bar.console.print(f"{text}: {total} samples", highlight=False, markup=False)

        yield move
