"""The curves of `scripts/bench scale` as a chart in SVG: the cost of metadata by the number of partitions.

Both axes are logarithmic, so figures that grow with the partitions are straight lines, and constant ones are
flat.
"""

import html
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

# For each curve: the figures that it adds up, its name, and its colour.
SHOWN: Final = (
    (("image MB",), "image in memory, MB", "#2a7f62"),
    (("snapshot loaded s",), "snapshot loaded, s", "#b0413e"),
    (
        ("elections decided s", "elections encoded s", "elections applied s"),
        "elections for a node that led up to 30,000, s",
        "#3b5b92",
    ),
    (("one change ms",), "one change applied, ms", "#8a6d1d"),
)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 60, 24, 56, 84
LOWEST, HIGHEST = -3, 3  # powers of ten
INK: Final = "#1a1a1a"


class Curve(NamedTuple):
    """A line through the measurements, by the number of partitions."""

    name: str
    colour: str
    points: Sequence[tuple[int, float]]


def points_of(document: Mapping[str, Any]) -> dict[int, dict[str, float]]:
    """Return the figures by the number of partitions; of two equal numbers, those with more nodes."""
    found: dict[int, dict[str, float]] = {}
    for row in document["rows"]:
        partitions = int(row["workload"].split(", ", 1)[1].removesuffix(" partitions").replace(",", ""))
        found.setdefault(partitions, {})[row["figure"]] = row["ottla"]
    return dict(sorted(found.items()))


def curves_of(document: Mapping[str, Any]) -> list[Curve]:
    """Return the curves of a document of `scripts/bench scale --json`."""
    points = points_of(document)
    return [
        Curve(name, colour, [(at, sum(found[one] for one in figures)) for at, found in points.items()])
        for figures, name, colour in SHOWN
    ]


def chart(curves: Sequence[Curve]) -> str:
    """Return the chart."""
    sizes = sorted({at for curve in curves for at, _ in curve.points})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" role="img"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">\n',
        "<title>What metadata cost, by the number of partitions</title>\n",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n',
        f'<text x="16" y="24" font-size="15" font-weight="bold" fill="{INK}">'
        "What metadata cost, by the number of partitions</text>\n",
    ]
    for power in range(LOWEST, HIGHEST + 1):
        y = _y(10.0**power)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#d0d0d0"/>\n'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">{10.0**power:g}</text>\n'
        )
    for size in sizes:
        x = _x(size, sizes)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" fill="#555555">'
            f"{size:,}</text>\n"
        )
    for number, curve in enumerate(curves):
        line = " ".join(f"{_x(at, sizes):.1f},{_y(value):.1f}" for at, value in curve.points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{curve.colour}" stroke-width="2"/>\n')
        parts += [
            f'<circle cx="{_x(at, sizes):.1f}" cy="{_y(value):.1f}" r="3" fill="{curve.colour}"/>\n'
            for at, value in curve.points
        ]
        x, y = LEFT + number % 2 * 340, HEIGHT - BOTTOM + 46 + number // 2 * 20
        parts.append(
            f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{curve.colour}"/>\n'
            f'<text x="{x + 18}" y="{y}" fill="{INK}">{html.escape(curve.name)}</text>\n'
        )
    return "".join([*parts, "</svg>\n"])


def _x(partitions: int, sizes: Sequence[int]) -> float:
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])
    share = (math.log10(partitions) - first) / (last - first)
    return LEFT + 30 + share * (WIDTH - LEFT - RIGHT - 70)


def _y(value: float) -> float:
    power = min(max(math.log10(value), LOWEST), HIGHEST)
    return TOP + (HIGHEST - power) / (HIGHEST - LOWEST) * (HEIGHT - TOP - BOTTOM)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(chart(curves_of(json.loads(source.read_text()))))
