"""The lag of a query in offsets, from the progress that Spark reports.

Spark takes no metrics from a source in Python, so the metrics that the connector reports are computed here
from `endOffset` and `latestOffset`, which are in each progress.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.data_loss import is_replaced
from ottla.pipeline.source.source_offsets import SourceOffsets, open_json, read_offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The number of offsets that are not read yet, by partition."""

    by_partition: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """The sum over all partitions."""
        return sum(self.by_partition.values())

    def metrics(self) -> dict[str, str]:
        """Return the connector's metrics under its names, as text; none if there is no partition."""
        behind = self.by_partition.values()
        if not behind:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(self.total / len(behind)),
        }


def lag_between(read: SourceOffsets, latest: SourceOffsets) -> Lag:
    """Return the lag of `read` behind `latest`; a new partition counts from 0."""
    behind = {}
    for partition, end in latest.offsets.items():
        is_new = is_replaced(partition.topic, read, latest)
        behind[partition] = max(end - (0 if is_new else read.offsets.get(partition, 0)), 0)
    return Lag(by_partition=behind)


def offsets_of_source(progress: Mapping[str, object]) -> tuple[SourceOffsets, SourceOffsets] | None:
    """Return the offsets read and the latest offsets of one of the `sources` in a query's progress.

    None before its first batch; OptionError if the offsets are not in this format. For a topic that was
    created again, nothing counts as read.
    """
    offsets = []
    for name in ("endOffset", "latestOffset"):
        value = progress.get(name)
        if value is None or value == "null":
            return None
        offsets.append(read_offsets(open_json(value, name) if isinstance(value, str) else value, name))
    read, latest = offsets
    kept = {one: at for one, at in read.offsets.items() if not is_replaced(one.topic, read, latest)}
    return replace(read, offsets=kept), latest


def lag_of_source(progress: Mapping[str, object]) -> Lag | None:
    """Return the lag of one of the `sources` in a query's progress; None before its first batch.

    Raises OptionError if the offsets are not in this format.
    """
    offsets = offsets_of_source(progress)
    return None if offsets is None else lag_between(*offsets)
