"""A producer of numbered records for tests of groups, which waits until the cluster has acknowledged them."""

import threading

from confluent_kafka import Message, Producer


class Feed:
    """A thread that writes numbered records to a topic until it is stopped."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, pause_s: float = 0.02, first: int = 0
    ) -> None:
        """Start the thread: it writes five records, pauses, and repeats. The numbers begin with `first`."""
        self.next = first
        self.delivered: set[str] = set()
        self.problems: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._topic, self._partitions, self._pause_s = topic, partitions, pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s):
            for _ in range(5):
                partition = self.next % self._partitions
                self._producer.produce(
                    self._topic, str(self.next).encode(), partition=partition, on_delivery=self._note
                )
                self.next += 1
            self._producer.poll(0)

    def _note(self, error: object, message: Message) -> None:
        if error is None:
            self.delivered.add((message.value() or b"").decode())
        else:
            self.problems.append(f"{message.value()!r} to {message.partition()}: {error}")

    def stop(self) -> set[str]:
        """Stop, and return the values of all records sent; the cluster has acknowledged every one of them."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self.problems, self.problems
        return self.delivered
