"""The position in a table up to which it was read, as a checkpoint has it: a small JSON object.

Both ends of a batch are such positions, decided before it is read. So a batch that is read again asks for the
same range, and rows beyond that range that are committed in between come with the next batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.pipeline.connect.table_options import Mode, TableOptions
from ottla.pipeline.words import OptionError

Value = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The place of the last row that was read; None for a part that no row has given yet.

    `timestamp` is in the database's own form (SQLite: ms since 1970; PostgreSQL: its text in UTC), so that it
    loses nothing. In mode bulk `polled_ms` is the time of the last read. Rows whose time is infinity or after
    the year 9999 have an order of their own, since no clock reaches them: `beyond` is the number of the last
    one that was read, or its time in mode timestamp.
    """

    timestamp: Value | None = None
    incrementing: int | None = None
    polled_ms: int | None = None
    beyond: Value | None = None

    @property
    def is_start(self) -> bool:
        """True if nothing was read, except perhaps rows that no clock reaches."""
        return self.timestamp is None and self.incrementing is None and self.polled_ms is None


START = Position()


def to_offset(position: Position, options: TableOptions) -> dict[str, Value]:
    """Return the position in the form of the checkpoint, with the table and mode that it belongs to."""
    offset: dict[str, Value] = {"table": options.table_name, "mode": options.mode.value}
    if position.timestamp is not None:
        offset["timestamp"] = position.timestamp
    if position.incrementing is not None:
        offset["incrementing"] = position.incrementing
    if position.polled_ms is not None:
        offset["polled_ms"] = position.polled_ms
    if position.beyond is not None:
        offset["beyond"] = position.beyond
    return offset


def from_offset(offset: Mapping[str, object], options: TableOptions) -> Position:
    """Read a position; OptionError for one of other options or in no known form."""
    for key, now in (("table", options.table_name), ("mode", options.mode.value)):
        then = offset.get(key)
        if then != now:
            problem = f"is {now}, but the checkpoint was written with {str(then)[:80]}: use a new checkpoint"
            raise OptionError(key, problem)
    position = Position(
        timestamp=_value(offset, "timestamp"),
        incrementing=_number(offset, "incrementing"),
        polled_ms=_number(offset, "polled_ms"),
        beyond=_value(offset, "beyond"),
    )
    has = (position.timestamp is not None, position.incrementing is not None, position.polled_ms is not None)
    needs = (options.mode.has_timestamp, options.mode.has_incrementing, options.mode is Mode.BULK)
    if not position.is_start and has != needs:
        raise OptionError("checkpoint", f"has an offset that mode {options.mode.value} does not produce")
    return position


def _value(offset: Mapping[str, object], key: str) -> Value | None:
    value = offset.get(key)
    if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
        raise OptionError("checkpoint", f"has a {key} that is neither text nor a number")
    return value


def _number(offset: Mapping[str, object], key: str) -> int | None:
    value = offset.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise OptionError("checkpoint", f"has {key} that is not a whole number")
    return value
