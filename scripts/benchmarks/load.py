"""Generators that replay prebuilt frames over raw sockets, pipelined: the client costs next to nothing.

Large frames have a thread for each connection, as the interpreter lock is free during send and receive; small
frames share one epoll loop. The error code of every response is checked; an error ends the run.
"""

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import frames

SOCKET_TIMEOUT_S = 60
IN_FLIGHT = 5  # max.in.flight.requests.per.connection, the default of Java's producer
RECEIVE_BUFFER_BYTES = 4 << 20
MIN_WARM_UP_S, MAX_WARM_UP_S = 3, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The amounts of a run; `payload_bytes` counts uncompressed record values."""

    seconds: float
    requests: int
    records: int
    payload_bytes: int


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), SOCKET_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive_exactly(connection: socket.socket, view: memoryview) -> None:
    got = 0
    while got < len(view):
        count = connection.recv_into(view[got:])
        if count == 0:
            raise ConnectionError("the server closed the connection")
        got += count


def in_threads(work: list[Callable[[], None]]) -> float:
    """Run all at once; return the seconds until the last has ended, or raise the first exception."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(work) + 1)

    def guarded(one: Callable[[], None]) -> None:
        barrier.wait()
        try:
            one()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.perf_counter() - began


def produce(
    ports: Sequence[int],
    topic: str,
    batch: frames.Batch,
    *,
    acks: int,
    connections: int,
    seconds: float,
    limit_bytes: int,
    producer_ids: list[int] | None = None,
) -> Done:
    """Replay `batch` over each connection to a partition of its own, with `IN_FLIGHT` requests in flight.

    `ports` are the ports of the partitions' leaders, in turn.
    """
    sent = [0] * connections

    def drive(index: int) -> None:
        frame = frames.produce_frame(topic, [index], batch.data, acks)
        batch_at = len(frame) - len(batch.data)
        answer = bytearray(frames.produce_response_bytes(topic, 1))
        error_at = frames.produce_error_at(topic)
        quota = max(1, limit_bytes // connections // len(batch.data))
        with connect(ports[index % len(ports)]) as connection:
            deadline = time.perf_counter() + seconds
            started = answered = sequence = 0
            while True:
                more = started < quota and time.perf_counter() < deadline
                if more and started - answered < IN_FLIGHT:
                    if producer_ids is not None:
                        frames.stamp(frame, batch_at, producer_ids[index], sequence)
                        sequence += batch.records
                    connection.sendall(frame)
                    started += 1
                    continue
                if answered == started:
                    break
                receive_exactly(connection, memoryview(answer))
                check(answer, error_at)
                answered += 1
            sent[index] = answered

    took = in_threads([partial(drive, index) for index in range(connections)])
    total = sum(sent)
    return Done(
        seconds=took,
        requests=total,
        records=total * batch.records,
        payload_bytes=total * batch.payload_bytes,
    )


def check(answer: bytes | bytearray, error_at: int) -> None:
    error = struct.unpack_from(">h", answer, error_at)[0]
    if error:
        raise RuntimeError(f"the server responded with error {error}")


def small_requests(
    ports: Sequence[int],
    topic: str,
    partitions: int,
    *,
    connections: int,
    seconds: float,
    spread: int = 1,
    in_flight: int = IN_FLIGHT,
    acks: int = 1,
) -> Done:
    """Send requests of one 100-byte record to each of `spread` partitions, `in_flight` on each connection.

    `ports` are the ports of the partitions' leaders, in turn; with several of them `spread` must be 1.
    """
    batch = frames.build_batch(100, 100)
    requests: list[tuple[socket.socket, bytes]] = []
    for index in range(connections):
        first = index * spread % partitions
        chosen = sorted({(first + step) % partitions for step in range(spread)})
        request = bytes(frames.produce_frame(topic, chosen, batch.data, acks))
        requests.append((connect(ports[first % len(ports)]), request))
    took, answered = replay(
        requests,
        answer_bytes=frames.produce_response_bytes(topic, spread),
        error_at=frames.produce_error_at(topic),
        seconds=seconds,
        in_flight=in_flight,
    )
    records = answered * spread
    return Done(seconds=took, requests=answered, records=records, payload_bytes=100 * records)


def warm_up(rate_of_a_second: Callable[[], float]) -> None:
    """Work until a second is not 5 % faster than the best so far, because a JVM compiles while it runs.

    That is for more than MIN_WARM_UP_S, and for MAX_WARM_UP_S at most.
    """
    best = 0.0
    for second in range(MAX_WARM_UP_S):
        rate = rate_of_a_second()
        if second >= MIN_WARM_UP_S and rate < 1.05 * best:
            return
        best = max(best, rate)


def replay(
    requests: Sequence[tuple[socket.socket, bytes]],
    *,
    answer_bytes: int,
    error_at: int,
    seconds: float,
    in_flight: int,
) -> tuple[float, int]:
    """Repeat the request of each connection, with `in_flight` in flight; return the seconds and responses.

    All responses have the same size and their error code at `error_at`. Closes the connections.
    """
    poll = select.epoll()
    pending: dict[int, bytes] = {}
    by_number = {connection.fileno(): (connection, request) for connection, request in requests}
    for number in by_number:
        pending[number] = b""
        poll.register(number, select.EPOLLIN)
    began = time.perf_counter()
    for connection, request in requests:
        connection.sendall(request * in_flight)
    answered, open_requests = 0, len(requests) * in_flight
    while open_requests:
        for number, _ in poll.poll(SOCKET_TIMEOUT_S):
            connection, request = by_number[number]
            data = pending[number] + connection.recv(1 << 16)
            count, rest = divmod(len(data), answer_bytes)
            for at in range(0, count * answer_bytes, answer_bytes):
                check(data, at + error_at)
            pending[number] = data[len(data) - rest :] if rest else b""
            answered += count
            open_requests -= count
            if count and time.perf_counter() - began < seconds:
                connection.sendall(request * count)
                open_requests += count
    took = time.perf_counter() - began
    for connection, _ in requests:
        connection.close()
    poll.close()
    return took, answered


def paced(
    port: int, topic: str, partitions: int, *, per_second: int, seconds: float, acks: int = 1
) -> list[float]:
    """Send requests of one 100-byte record at a fixed rate on one connection; return their latencies.

    These are seconds from the time when the request was due, so that waiting behind another request counts.
    """
    batch = frames.build_batch(100, 100)
    requests = [bytes(frames.produce_frame(topic, [index], batch.data, acks)) for index in range(partitions)]
    answer_bytes, error_at = frames.produce_response_bytes(topic, 1), frames.produce_error_at(topic)
    count = int(per_second * seconds)
    due: list[float] = []
    done: list[float] = []

    def send() -> None:
        began = time.monotonic()
        for number in range(count):
            due.append(began + number / per_second)
            time.sleep(max(0.0, due[-1] - time.monotonic()))
            connection.sendall(requests[number % partitions])

    def receive() -> None:
        answer = bytearray(answer_bytes)
        for _ in range(count):
            receive_exactly(connection, memoryview(answer))
            done.append(time.monotonic())
            check(answer, error_at)

    with connect(port) as connection:
        in_threads([send, receive])
    return [end - one for one, end in zip(due, done, strict=True)]


def consume(
    port: int,
    topic: str,
    *,
    partitions: int,
    seconds: float,
    record_bytes: int,
    partition_max_bytes: int = 1 << 20,
) -> Done:
    """Fetch each partition from offset 0 to its end over a connection of its own, until time is up."""
    fetched = [0] * partitions
    records_read = [0] * partitions

    def drive(index: int) -> None:
        frame = frames.fetch_frame(topic, index, 0, partition_max_bytes)
        offset_at = len(frame) - frames.FETCH_OFFSET_FROM_END
        buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        prefix = memoryview(bytearray(4))
        with connect(port) as connection:
            deadline = time.perf_counter() + seconds
            offset = 0
            while time.perf_counter() < deadline:
                struct.pack_into(">q", frame, offset_at, offset)
                connection.sendall(frame)
                receive_exactly(connection, prefix)
                size = struct.unpack(">i", prefix)[0]
                receive_exactly(connection, buffer[:size])
                error, records = frames.records_of(buffer[:size], topic)
                if error:
                    raise RuntimeError(f"the server responded to Fetch with error {error}")
                following, count = frames.end_of(records, offset)
                offset = following if count else 0
                fetched[index] += 1
                records_read[index] += count

    took = in_threads([partial(drive, index) for index in range(partitions)])
    total = sum(records_read)
    return Done(seconds=took, requests=sum(fetched), records=total, payload_bytes=total * record_bytes)
