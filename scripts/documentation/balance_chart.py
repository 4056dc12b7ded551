"""The chart of a cluster that grows from three nodes to five, from `scripts/bench balance`, as SVG.

The panels share one time axis: the replicas, bytes and leaders of each node, and the latency of records until
all replicas in sync have them.
"""

import html
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

COLOURS: Final = ("#2a7f62", "#b0413e", "#3b5b92", "#8a6d1d", "#7a4d8f")
INK: Final = "#1a1a1a"
FAINT: Final = "#d0d0d0"
WIDTH, LEFT, RIGHT, TOP, PANEL, GAP, BOTTOM = 760, 60, 24, 78, 110, 30, 34


class Panel(NamedTuple):
    """Named lines over time under a title; the axis starts at zero."""

    title: str
    lines: Mapping[str, Sequence[float | None]]


def panels_of(series: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of the series of a document of `scripts/bench balance --json`."""
    panels = [
        Panel(title, {f"node {node}": values for node, values in series[key].items()})
        for title, key in (("replicas", "replicas"), ("MB on disk", "MB"), ("leaders", "leaders"))
    ]
    return [
        *panels,
        Panel("ms until a record is acknowledged", {key: series[key] for key in ("p50 ms", "p99 ms")}),
    ]


def chart(document: Mapping[str, Any]) -> str:
    """Return the chart."""
    series, panels = document["series"], panels_of(document["series"])
    times: Sequence[float] = series["s"]
    height = TOP + len(panels) * (PANEL + GAP) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">\n',
        "<title>A cluster grows from three nodes to five under load</title>\n",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n',
        f'<text x="16" y="24" font-size="15" font-weight="bold" fill="{INK}">'
        "A cluster grows from three nodes to five under load</text>\n",
    ]
    for number, name in enumerate(panels[0].lines):
        x = LEFT + number * 90
        parts.append(
            f'<rect x="{x}" y="36" width="12" height="12" fill="{COLOURS[number]}"/>\n'
            f'<text x="{x + 18}" y="46" fill="{INK}">{html.escape(name)}</text>\n'
        )
    for number, at in enumerate(document["marks"].values(), 1):
        x = _x(at, times)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM - GAP + 8}"'
            f' stroke="#888888" stroke-dasharray="4 3"/>\n'
            f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle" fill="#555555">{number}</text>\n'
        )
    for number, panel in enumerate(panels):
        parts += _panel(panel, times, TOP + number * (PANEL + GAP))
    marks = ", ".join(
        f"{number}: {name} ({at:.0f} s)" for number, (name, at) in enumerate(document["marks"].items(), 1)
    )
    parts.append(
        f'<text x="{LEFT}" y="{height - 14}" fill="#555555">{html.escape(marks)}; '
        f"{times[-1]:.0f} s in all</text>\n"
    )
    return "".join([*parts, "</svg>\n"])


def _panel(panel: Panel, times: Sequence[float], top: float) -> list[str]:
    highest = _round_up(
        max(value for values in panel.lines.values() for value in values if value is not None)
    )
    bottom = top + PANEL
    parts = [f'<text x="{LEFT}" y="{top - 4:.1f}" fill="{INK}">{html.escape(panel.title)}</text>\n']
    for part in (0.0, 0.5, 1.0):
        y = bottom - part * (PANEL - 14)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{FAINT}"/>\n'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">'
            f"{part * highest:g}</text>\n"
        )
    for number, (name, values) in enumerate(panel.lines.items()):
        points = " ".join(
            f"{_x(at, times):.1f},{bottom - value / highest * (PANEL - 14):.1f}"
            for at, value in zip(times, values, strict=True)
            if value is not None
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[number]}" stroke-width="2">'
            f"<title>{html.escape(name)}</title></polyline>\n"
        )
    return parts


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 4, 6, 8 and 10 times a power of ten."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def _x(at: float, times: Sequence[float]) -> float:
    return LEFT + at / times[-1] * (WIDTH - LEFT - RIGHT)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(chart(json.loads(source.read_text())))
