"""The ratios of `scripts/bench` as a chart in SVG, which needs no library to draw or show.

A bar to the right of the middle is better than Apache Kafka, one to the left is worse, on a scale of powers
of two. The thin line is the middle half of all turns.
"""

import html
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

# For each workload, the figure that is shown and its name in the chart.
SHOWN: Final = (
    ("wire produce 1 KB, 64 KB, acks=1", "MB/s", "produce, raw"),
    ("wire produce 1 KB, 64 KB, acks=all", "MB/s", "produce acks=all, raw"),
    ("wire produce 1 KB, 64 KB, zstd", "MB/s", "produce zstd, raw"),
    ("client produce 1 KB, 64 KB, acks=all", "MB/s", "produce acks=all, librdkafka"),
    ("client produce 1 KB, 64 KB, idempotent", "MB/s", "produce idempotent, librdkafka"),
    ("wire consume 1 KB", "MB/s", "consume, raw"),
    ("client consume 1 KB", "MB/s", "consume, librdkafka"),
    ("small requests", "requests/s", "small requests"),
    ("small requests, one in flight", "requests/s", "small requests, one in flight"),
    ("end to end, 1000 records/s", "p99 ms", "latency end to end, p99"),
    ("groups: classic, one joins and leaves ten", "join s", "a member joins a group of ten"),
    ("txn: raw v2, 32 producers, 1 record", "commits/s", "transactions"),
    ("memory after 1 GB", "MB RSS", "memory after 1 GB"),
)
LOWER_IS_BETTER: Final = ("ms", " s", "RSS", "CPU")
WIDTH, LEFT, RIGHT, ROW, TOP = 760, 240, 110, 26, 64
INK: Final = "#1a1a1a"
MAX_POWER = 4.0  # 16 times


class Bar(NamedTuple):
    """A row: how many times as good as Apache Kafka, with the middle half of the turns."""

    name: str
    times: float
    worst: float
    best: float


def bars_of(rows: Iterable[dict[str, object]]) -> list[Bar]:
    """Return the bars of the rows of `scripts/bench --json`; ratios are inverted where less is better."""
    by_name = {(row["workload"], row["figure"]): row for row in rows}
    bars = []
    for workload, figure, name in SHOWN:
        row = by_name.get((workload, figure))
        if row is None or not isinstance(row["ratio"], float):
            continue
        values = [float(str(row[one])) for one in ("ratio", "lower quartile", "upper quartile")]
        if any(figure.endswith(end) for end in LOWER_IS_BETTER):
            values = [1 / one for one in values]
        bars.append(Bar(name, values[0], min(values[1:]), max(values[1:])))
    return bars


def chart(bars: Sequence[Bar]) -> str:
    """Return the chart."""
    height = TOP + ROW * len(bars) + 16
    zero = _x(1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">\n',
        "<title>Ottla and Apache Kafka 4.3.1 on one machine: how many times as good</title>\n",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n',
        f'<text x="16" y="24" font-size="15" font-weight="bold" fill="{INK}">One node of Ottla beside '
        "Apache Kafka 4.3.1: times as good</text>\n",
    ]
    for power in range(-1, int(MAX_POWER) + 1):
        x = _x(2.0**power)
        label = "equal" if power == 0 else f"{2.0**power:g}x"
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 12}" stroke="#d0d0d0"/>\n'
            f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle" fill="#555555">{label}</text>\n'
        )
    for number, bar in enumerate(bars):
        y = TOP + ROW * number
        start, end = sorted((zero, _x(bar.times)))
        colour = "#2a7f62" if bar.times >= 1 else "#b0413e"
        middle = y + ROW / 2 - 2
        parts += [
            f'<text x="{LEFT - 12}" y="{middle + 4:.1f}" text-anchor="end" fill="{INK}">',
            f"{html.escape(bar.name)}</text>\n",
            f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 1):.1f}" ',
            f'height="{ROW - 10}" fill="{colour}"/>\n',
            f'<line x1="{_x(bar.worst):.1f}" y1="{middle:.1f}" x2="{_x(bar.best):.1f}" ',
            f'y2="{middle:.1f}" stroke="{INK}"/>\n',
            f'<text x="{WIDTH - 16}" y="{middle + 4:.1f}" text-anchor="end" fill="{INK}">',
            f"{bar.times:.2f}x</text>\n",
        ]
    return "".join([*parts, "</svg>\n"])


def _x(times: float) -> float:
    """Return the x coordinate of a ratio, limited to the scale."""
    power = min(max(math.log2(times), -1.0), MAX_POWER)
    return LEFT + (power + 1) / (MAX_POWER + 1) * (WIDTH - LEFT - RIGHT)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(chart(bars_of(json.loads(source.read_text())["rows"])))
