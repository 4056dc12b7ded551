"""How far a query is behind: from the offsets that Spark shows of its progress.

Spark takes no metrics from a source in Python, so what the connector reports in `metrics` is counted here
from `endOffset` and `latestOffset`, which are in each progress.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.data_loss import is_replaced
from ottla.pipeline.source.source_offsets import SourceOffsets, open_json, read_offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Offsets between what was read and what there is, by partition."""

    by_partition: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.by_partition.values())

    def metrics(self) -> dict[str, str]:
        """The connector's metrics under its names, as text; none where there is no partition."""
        behind = self.by_partition.values()
        if not behind:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(self.total / len(behind)),
        }


def lag_between(read: SourceOffsets, latest: SourceOffsets) -> Lag:
    """What there is in `latest` and not yet in `read`; a partition that is new counts from 0."""
    behind = {}
    for partition, end in latest.offsets.items():
        is_new = is_replaced(partition.topic, read, latest)
        behind[partition] = max(end - (0 if is_new else read.offsets.get(partition, 0)), 0)
    return Lag(by_partition=behind)


def offsets_of_source(progress: Mapping[str, object]) -> tuple[SourceOffsets, SourceOffsets] | None:
    """Return what was read and what there is, of one of the `sources` of a query's progress.

    None before its first batch; OptionError if the offsets in it are not those of this format. Of a topic
    that was made anew nothing was read yet.
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
    """The lag of one of the `sources` of a query's progress; None before its first batch.

    OptionError if the offsets in it are not those of this format.
    """
    offsets = offsets_of_source(progress)
    return None if offsets is None else lag_between(*offsets)
