"""The report of `ottla produce`: the partitions and offsets of its records, as text or JSON."""

import sys

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import print_json
from ottla.node.cli.progress import Progress
from ottla.node.client.producer import Producer, Written, counted_records


class WrittenReport:
    """Reports each line if the input is typed at a terminal; otherwise all records once, at the end."""

    def __init__(self, producer: Producer, topic: str, *, is_quiet: bool, as_json: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._is_quiet, self._as_json = is_quiet, as_json
        self._is_typed = sys.stdin.isatty()
        self._progress = Progress()

    def show_progress(self) -> None:
        """Report the progress, after records were acknowledged."""
        if self._is_quiet:
            return
        if not self._is_typed:
            self._progress.show(self._producer.acknowledged_bytes, self._producer.acknowledged)
        elif not self._as_json:
            self._print_written()

    def end(self) -> None:
        """Report the rest; also when an error ends the command."""
        self._progress.end()
        if self._is_quiet:
            return
        if not self._as_json:
            self._print_written()
            return
        rows = [
            {
                "topic": self._topic,
                "partition": partition,
                "records": one.records,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
            }
            for partition, one in sorted(self._producer.take_written().items())
        ]
        print_json(rows)

    def _print_written(self) -> None:
        for partition, one in sorted(self._producer.take_written().items()):
            print(f"{TopicPartition(self._topic, partition)}: {describe(one)}", flush=True)


def describe(written: Written) -> str:
    """Return the number and offsets of records as text: `2 records at offsets 0 to 1`."""
    counted, first, last = counted_records(written.records), written.first_offset, written.last_offset
    if first is None or last is None:
        return f"{counted} sent, at unknown offsets"
    if written.records == 1:
        return f"{counted} at offset {first}"
    if last - first + 1 == written.records:
        return f"{counted} at offsets {first} to {last}"
    return f"{counted} between offsets {first} and {last}"
