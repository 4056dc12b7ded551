"""Charts of the pipeline's result: mean delays by carrier and hour, and by time zone of the destination."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

NEW_YORK = "America/New_York"
FEW = 30  # departures; fewer have no meaningful mean
# The least delay in minutes for each colour of a cell in the terminal; light colours have dark text.
COLOURS = (
    (30, "on #b10026"),
    (20, "on #e31a1c"),
    (14, "black on #fd8d3c"),
    (8, "black on #feb24c"),
    (3, "black on #ffeda0"),
)
EARLY = "black on #d9f0d3"
ZONES = {
    "America/New_York": "Eastern",
    "America/Chicago": "Central",
    "America/Denver": "Mountain",
    "America/Phoenix": "Arizona",
    "America/Los_Angeles": "Pacific",
    "America/Anchorage": "Alaska",
    "Pacific/Honolulu": "Hawaii",
    "": "not a known airport",
}


def means(delays: "pd.DataFrame") -> "pd.DataFrame":
    """Return mean delays in minutes: a row for each carrier, the latest first, a column for each hour."""
    hours = delays.assign(hour=delays["window_start"].dt.tz_convert(NEW_YORK).dt.hour)
    sums = hours.groupby(["carrier", "hour"])[["count", "sum_dep_delay"]].sum()
    enough = sums[sums["count"] >= FEW]
    table = (enough["sum_dep_delay"] / enough["count"]).unstack("hour")
    return table.loc[totals(delays, "carrier").index.intersection(table.index, sort=False)]


def totals(delays: "pd.DataFrame", by: str) -> "pd.DataFrame":
    """Return departures and mean delay, the greatest delay first."""
    sums = delays.groupby(by)[["count", "sum_dep_delay"]].sum()
    sums["mean"] = sums["sum_dep_delay"] / sums["count"]
    return sums.sort_values("mean", ascending=False)


def show(delays: "pd.DataFrame", names: dict[str, str], console: Console) -> None:
    """Print the chart in the terminal, as minutes in coloured cells."""
    cells, all_day = means(delays), totals(delays, "carrier")
    table = Table(
        title="Mean delay at departure in minutes, by carrier and hour of the day",
        title_justify="left",
        box=None,
        padding=(0, 0),
        header_style="dim",
    )
    table.add_column("", no_wrap=True)
    for hour in cells.columns:
        table.add_column(f"{hour}", justify="right", width=3)
    table.add_column(" all", justify="right")
    for carrier, row in cells.iterrows():
        label = f"{names.get(str(carrier), str(carrier))} "
        mean = all_day.loc[carrier, "mean"]
        table.add_row(label, *[cell(value) for value in row], f" {mean:.0f}")
    console.print(table)
    zones = totals(delays, "dest_tzone")
    console.print(
        "By time zone of the destination, from the table of airports: "
        + ", ".join(
            f"{ZONES.get(str(zone), str(zone))} {row['mean']:.0f} min" for zone, row in zones.iterrows()
        ),
        highlight=False,
    )


def cell(value: float) -> Text:
    if value != value:
        return Text("  ·", style="dim")
    style = next((style for least, style in COLOURS if value >= least), EARLY)
    return Text(f"{round(value):3}", style=style)


def draw(delays: "pd.DataFrame", names: dict[str, str], title: str, path: Path) -> None:
    """Write the chart as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.colors import TwoSlopeNorm

    cells = means(delays)
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(15, 7), width_ratios=(2.9, 1), layout="constrained"
    )
    figure.suptitle(title, fontsize=15, x=0.01, ha="left")
    left.set_facecolor("#f2f2f2")
    norm = TwoSlopeNorm(vmin=-10, vcenter=0, vmax=50)
    image = left.imshow(cells.to_numpy(dtype=float), aspect="auto", cmap="RdYlBu_r", norm=norm)
    left.set_xticks(range(len(cells.columns)), [f"{hour}" for hour in cells.columns])
    left.set_yticks(range(len(cells.index)), [names.get(str(one), str(one)) for one in cells.index])
    left.set_xlabel("hour of the scheduled departure in New York")
    left.tick_params(length=0)
    for y, row in enumerate(cells.to_numpy(dtype=float)):
        for x, value in enumerate(row):
            if value == value:
                left.text(
                    x,
                    y,
                    f"{round(value)}",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="white" if value > 33 or value < -8 else "#222222",
                )
    for side in left.spines.values():
        side.set_visible(False)
    figure.colorbar(image, ax=left, label="mean delay at departure, minutes", shrink=0.8, pad=0.01)
    zones = totals(delays, "dest_tzone")
    zones = zones[zones["count"] >= FEW].iloc[::-1]
    labels = [f"{ZONES.get(str(zone), str(zone))}" for zone in zones.index]
    bars = right.barh(labels, zones["mean"], color="#c0504d", height=0.65)
    notes = [f"{row['mean']:.1f} min, {row['count']:,.0f} flights" for _, row in zones.iterrows()]
    right.bar_label(bars, notes, padding=4, fontsize=9)
    right.set_xlim(0, zones["mean"].max() * 2.1)
    right.set_title("by time zone of the destination", fontsize=12, loc="left")
    left.set_title("by airline and hour of the day", fontsize=12, loc="left")
    right.set_xticks([])
    right.tick_params(length=0)
    for side in right.spines.values():
        side.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
