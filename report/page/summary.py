"""The page of an answer in a few sentences: one mapping, or a better one beside yours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .html import Section, paragraph, sentences
from .views import View, launcher_file, origin_section, torus_section, traffic_section


@dataclass(frozen=True)
class Summary:
    """An answer in words, and the mappings that it speaks of, the best first."""

    title: str
    answer: str
    more: Sequence[str]
    view: View


def sections_of(summary: Summary, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    content = f'<p class="answer">{sentences(summary.answer)}</p>\n'
    content += "".join(paragraph(line) for line in summary.more)
    return [
        Section("The answer", content + launcher_file(summary.view)),
        torus_section(summary.view),
        traffic_section(summary.view),
        origin_section(summary.view, inputs),
    ]
