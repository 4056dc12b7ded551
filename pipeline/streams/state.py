"""User-defined state, kept by Spark's `transformWithState`, and read back while the query runs or after it.

State is kept in the query's checkpoint, so it is there after a restart, exactly as of the last committed
batch. Spark keeps it in RocksDB (`require_rocksdb`). Unlike the rest of this package, this calls Python for
each key of a batch and reads its rows one by one: state that Spark's own functions can keep is faster there.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.pipeline.row_texts import column
from ottla.pipeline.streams.arguments import name_of, number_of
from ottla.pipeline.words import OptionError

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STREAK_STATE: Final = "streak"  # the variable's name in the state store
_STREAK: Final = StructType(
    [StructField("rows", LongType()), StructField("over", LongType()), StructField("streak", LongType())]
)
MAX_LENGTH: Final = 1_000_000


class Streaks(StatefulProcessor):
    """For each key: the rows seen, how many of them were over a limit, and how many of these came last."""

    def __init__(self, limit: int, length: int) -> None:
        self._limit = limit
        self._length = length
        self._state: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState(STREAK_STATE, _STREAK)

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:
        """Yield a row for each input row that makes a streak of the length, or extends one."""
        seen, over, streak = self._state.get() if self._state.exists() else (0, 0, 0)
        # The rows of a key in one batch come in any order.
        for at, value in sorted((row.at, row.value) for row in rows):
            seen += 1
            streak = streak + 1 if value > self._limit else 0
            over += streak > 0
            if streak >= self._length:
                yield Row(key=key[0], at=at, value=value, streak=streak)
        self._state.update((seen, over, streak))


def streaks(rows: DataFrame, *, by: str, value: str, order: str, over: str, length: str) -> DataFrame:
    """Return `key`, `at`, `value` and `streak` of each row that is at least the `length`th in a streak.

    A streak has consecutive rows of one `by` whose `value` is greater than `over`. `order` is a column of
    whole numbers by which the rows of a key are ordered within a batch and across batches: the offsets of a
    topic keyed by `by`. Rows with a null in `by`, `value` or `order` are left out. The output modes `append`
    and `update` give equal results.
    """
    require_rocksdb(rows.sparkSession)
    columns = rows.columns
    key, number, at = (
        name_of(by, "by", columns),
        name_of(value, "value", columns),
        name_of(order, "order", columns),
    )
    bound = number_of(over, "over", least=-(2**53), most=2**53)
    count = number_of(length, "length", least=1, most=MAX_LENGTH)
    taken = rows.select(
        column(key).cast("string").alias("key"),
        column(at).cast("long").alias("at"),
        column(number).cast("long").alias("value"),
    ).dropna()
    given = StructType(
        [
            StructField("key", StringType()),
            StructField("at", LongType()),
            StructField("value", LongType()),
            StructField("streak", LongType()),
        ]
    )
    return taken.groupBy("key").transformWithState(Streaks(bound, count), given, "Append", "None")


def require_rocksdb(spark: SparkSession) -> None:
    """Raise OptionError with the missing setting; Spark would fail in the middle of a query."""
    if spark.conf.get(PROVIDER, "") != ROCKSDB:
        raise OptionError(PROVIDER, f"must be {ROCKSDB}, which transformWithState needs")


def read_state(spark: SparkSession, checkpoint: str, *, variable: str = "", operator: int = 0) -> DataFrame:
    """Return the state of a query as its last batch left it, a row for each key.

    It has the fields of the key, then those of the value. `variable` names one of a `transformWithState`;
    without it the state is Spark's own, of a window, a join or another. `operator` is the index among the
    operators with state.
    """
    reader = spark.read.format("statestore").option("operatorId", operator)
    if variable:
        reader = reader.option("stateVarName", variable)
    return reader.load(checkpoint).select("key.*", "value.*")
