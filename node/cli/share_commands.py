"""`ottla consume --share`: prints or processes the records of a share group. Returns the exit code."""

import sys
import time
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.failure import EXIT_FAILURE
from ottla.node.cli.output_file import OutputFile
from ottla.node.cli.record_commands import RecordOutput
from ottla.node.cli.record_text import Formatter
from ottla.node.cli.record_worker import RecordWorker
from ottla.node.client.cluster_client import Client
from ottla.node.client.share_consumer import LostAcknowledgement, ShareConsumer, ShareLimits
from ottla.node.wire.acknowledge_type import AcknowledgeType

# A command may run for long: other members get the records behind this one meanwhile.
RECORDS_OF_A_WORKER: Final = 1
FIRST_ASSIGNMENT_S: Final = 15.0  # three heartbeat intervals of Kafka: enough for any first assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """The options of `ottla consume --share`; a count or a time of None is no limit."""

    topics: tuple[str, ...]
    group: str
    acknowledge: AcknowledgeType
    worker: RecordWorker | None
    count: int | None
    idle_s: float | None


async def consume(
    client: Client, options: ShareOptions, formatter: Formatter, file: OutputFile | None
) -> int:
    """Read until the count, the idle time or a signal; 1 if an acknowledgement was not accepted."""
    async with client:
        for name in options.topics:
            await client.topic_as_it_is(name)
        limits = ShareLimits() if options.worker is None else ShareLimits(RECORDS_OF_A_WORKER)
        consumer = ShareConsumer(client, options.group, options.topics, limits=limits)
        loop = _Loop(consumer, options, RecordOutput(formatter, options.count, file))
        try:
            await loop.run()
        finally:
            await loop.leave()
    return EXIT_FAILURE if loop.has_lost else 0


class _Loop:
    """The loop that polls, prints or runs the worker, and acknowledges."""

    def __init__(self, consumer: ShareConsumer, options: ShareOptions, output: RecordOutput) -> None:
        self.has_lost = False
        self._has_begun = False
        self._consumer = consumer
        self._options = options
        self._output = output

    async def run(self) -> None:
        """Run until the number of records is reached, or no record came for the idle time."""
        received_s = time.monotonic()
        while not self._output.is_full:
            records = await self._consumer.poll(self._output.left)
            self._print_unreadable()
            for shared in records:
                if self._options.worker is not None:
                    kind = await self._options.worker.work(shared, self._consumer.keep_alive)
                    self._output.count(1)
                    self._consumer.acknowledge(shared, kind)
                else:
                    self._output.print(shared.partition, [shared.record], deliveries=shared.delivery_count)
            if self._options.worker is None:
                # Before the acknowledgement: the reader may be gone, or the disk full.
                self._output.flush()
                self._output.sync()
                for shared in records:
                    self._consumer.acknowledge(shared, self._options.acknowledge)
            self._print_lost(await self._consumer.commit())
            # The first assignment takes time: the group first initializes the state of new partitions.
            if records or (not self._has_begun and self._consumer.member.assigned):
                self._has_begun = True
                received_s = time.monotonic()
            elif self._is_idle(time.monotonic() - received_s):
                return

    def _is_idle(self, silent_s: float) -> bool:
        limit_s = self._options.idle_s
        if limit_s is not None and not self._has_begun:
            limit_s = max(limit_s, FIRST_ASSIGNMENT_S)
        return limit_s is not None and silent_s >= limit_s

    async def leave(self) -> None:
        """Release the records that are held and leave; also after Ctrl-C, but not if the cluster is gone."""
        try:
            self._print_lost(await self._consumer.close())
        except KafkaError:
            if sys.exception() is None:
                raise

    def _print_unreadable(self) -> None:
        for one in self._consumer.take_unreadable():
            where = f"offset {one.first}" if one.first == one.last else f"offsets {one.first} to {one.last}"
            print(
                f"warning: {where} of {one.partition} cannot be read and are not printed: "
                f"{_reason(one.error)}.",
                file=sys.stderr,
                flush=True,
            )

    def _print_lost(self, lost: list[LostAcknowledgement]) -> None:
        for one in lost:
            first, last, kind = one.range
            if kind is AcknowledgeType.RENEW or kind is AcknowledgeType.GAP:
                continue
            self.has_lost = True
            where = f"offset {first}" if first == last else f"offsets {first} to {last}"
            print(
                f"warning: the acknowledgement of {where} of {one.partition} was not accepted, so records "
                f"that are not acknowledged yet are delivered again: {_reason(one.error)}.",
                file=sys.stderr,
                flush=True,
            )


def _reason(error: KafkaError) -> str:
    return escape_controls(error.detail.rstrip(".") or error.code.name)
