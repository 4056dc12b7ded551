"""Reads committed records over raw sockets, to measure the server's part of a read_committed consumer.

Only the header of each batch is decoded, and the type of each control record. Aborted transactions are found
as in Kafka's consumer, by the list in each response. Each reading of a partition from its start to its end
must show every committed record, and no aborted one.
"""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import frames, load

PARTITION_MAX_BYTES = 1 << 20  # max.partition.fetch.bytes, the default
TRANSACTIONAL, CONTROL = 0x10, 0x20
# In a control batch: after the header, a byte each for length, attributes, two deltas and the key's length.
MARKER_TYPE_AT = frames.BATCH.size + 5 + 2
ABORT = 0


@dataclass(slots=True)
class Reading:
    """A reading of a partition from its start."""

    offset: int = 0  # of the next fetch
    committed: int = 0  # records

    def take(self, aborted: Sequence[tuple[int, int]], records: memoryview) -> bool:
        """Count the committed records of a response; return False if it had no whole batch.

        `aborted` are the aborted transactions as (first offset, producer id).
        """
        upcoming, ended = sorted(aborted, reverse=True), set[int]()
        at, before = 0, self.offset
        while at + frames.BATCH.size <= len(records):
            head = frames.BATCH.unpack_from(records, at)
            base, size, attributes, last_delta, producer, count = (
                head[0],
                head[1],
                head[5],
                head[6],
                head[9],
                head[12],
            )
            if at + 12 + size > len(records):
                break
            while upcoming and upcoming[-1][0] <= base + last_delta:
                ended.add(upcoming.pop()[1])
            if attributes & CONTROL:
                if struct.unpack_from(">h", records, at + MARKER_TYPE_AT)[0] == ABORT:
                    ended.discard(producer)
            elif base >= before and not (attributes & TRANSACTIONAL and producer in ended):
                self.committed += count
            self.offset = base + last_delta + 1
            at += 12 + size
        return self.offset != before


def read(ports: Sequence[int], topic: str, records: Sequence[int], seconds: float) -> tuple[float, int]:
    """Read each partition repeatedly until time is up; return the seconds and the number of records.

    Each partition has a connection. `ports` are the ports of the partitions' leaders, `records` the numbers
    of their committed records. Each is read at least once; RuntimeError if a reading has another number.
    """
    counts = [0] * len(ports)

    def drive(index: int) -> None:
        frame = frames.fetch_frame(topic, index, 0, PARTITION_MAX_BYTES, isolation_level=1)
        offset_at = len(frame) - frames.FETCH_OFFSET_FROM_END
        buffer, prefix = memoryview(bytearray(load.RECEIVE_BUFFER_BYTES)), memoryview(bytearray(4))
        deadline = time.perf_counter() + seconds
        reading = Reading()
        with load.connect(ports[index]) as connection:
            while not counts[index] or time.perf_counter() < deadline:
                struct.pack_into(">q", frame, offset_at, reading.offset)
                connection.sendall(frame)
                load.receive_exactly(connection, prefix)
                answer = buffer[: int.from_bytes(prefix)]
                load.receive_exactly(connection, answer)
                error, aborted, content = frames.fetched(answer, topic)
                if error:
                    raise RuntimeError(f"the server responded to Fetch with error {error}")
                if reading.take(aborted, content):
                    continue
                if reading.committed != records[index]:
                    raise RuntimeError(f"read {reading.committed} committed records, not {records[index]}")
                counts[index] += reading.committed
                reading = Reading()
        counts[index] += reading.committed

    taken = load.in_threads([partial(drive, index) for index in range(len(ports))])
    return taken, sum(counts)
