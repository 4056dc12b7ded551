"""The settings of a streaming query: its name, checkpoint, trigger and output mode."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from ottla.pipeline.words import OptionError

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

OutputMode = Literal["append", "complete", "update"]
OUTPUT_MODES: Final = get_args(OutputMode)
MAX_INTERVAL_MS: Final = 366 * 86_400_000
_INTERVAL: Final = re.compile(r"([0-9]{1,12}) *([a-z]+)")
_UNITS_MS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1_000),
    **dict.fromkeys(("min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingTime:
    """A micro-batch at each interval, or at once if the one before took longer; 0 runs them back to back."""

    interval_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """The data that is there when the query starts, in as many micro-batches as needed; then it ends."""


Trigger = ProcessingTime | AvailableNow


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """The settings of a query apart from its rows and where they go.

    `checkpoint` is a folder in the form that Spark writes it.
    """

    name: str
    checkpoint: str
    trigger: Trigger = ProcessingTime()
    output_mode: OutputMode = "append"

    def start(self, writer: "DataStreamWriter") -> "StreamingQuery":
        """Start the query that `writer` describes, with these settings."""
        configured = (
            writer.queryName(self.name)
            .outputMode(self.output_mode)
            .option("checkpointLocation", self.checkpoint)
        )
        match self.trigger:
            case ProcessingTime(interval_ms=interval_ms):
                return configured.trigger(processingTime=f"{interval_ms} milliseconds").start()
            case AvailableNow():
                return configured.trigger(availableNow=True).start()


def parse_interval_ms(text: str, option: str) -> int:
    """Read a time in Spark's notation, one number and one unit, such as `500 ms`, `1 second` or `2 minutes`.

    Raises OptionError for any other text.
    """
    match = _INTERVAL.fullmatch(text.strip().lower())
    unit_ms = _UNITS_MS.get(match[2]) if match else None
    if match is None or unit_ms is None:
        raise OptionError(option, "must be a number and a unit, such as 500 milliseconds or 10 seconds")
    interval_ms = int(match[1]) * unit_ms
    if interval_ms > MAX_INTERVAL_MS:
        raise OptionError(option, "is more than a year")
    return interval_ms
