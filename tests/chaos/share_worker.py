"""A member of a share group in its own process (librdkafka), which reports each step on a line.

    python -m tests.chaos.share_worker BOOTSTRAP TOPIC GROUP NAME SEED
Its output, a line for each step before the next one begins:
    delivered PARTITION OFFSET COUNT TIME     a delivery, which the leader made at this time or later
    acknowledged PARTITION OFFSET COUNT KIND  the acknowledgement: accept, release or reject
    confirmed PARTITION OFFSET COUNT TIME     the response that confirms the acknowledgement
It works until its input ends, and then leaves the group. Times are of the machine's monotonic clock.
"""

import random
import sys
import threading
import time
from collections import deque

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from tests.chaos.share_history import ACCEPT, REJECT, RELEASE

POLL_S = 0.2
COMMIT_TIMEOUT_S = 10.0
# A poll returns a response that arrived during it or, if two leaders responded, during the poll before it. So
# the leader delivered a record no earlier than the beginning of the first of this many last polls.
POLLS_PER_RESPONSE = 3
# Beyond this count a member releases no record, so that each is finished in the end.
MAX_RELEASED_COUNT = 4
KINDS = {ACCEPT: AcknowledgeType.ACCEPT, RELEASE: AcknowledgeType.RELEASE, REJECT: AcknowledgeType.REJECT}
# Errors after which a member continues: its coordinator moves, or the cluster is not available.
TRANSIENT = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.REQUEST_TIMED_OUT,
)


def report(*words: object) -> None:
    print(*words, flush=True)


def choose(chance: random.Random, count: int) -> str:
    kinds = (ACCEPT, RELEASE, REJECT) if count <= MAX_RELEASED_COUNT else (ACCEPT, REJECT)
    return chance.choices(kinds, (85, 10, 5)[: len(kinds)])[0]


def poll(consumer: ShareConsumer) -> list[Message]:
    try:
        found: list[Message] = consumer.poll(POLL_S)
    except KafkaException as error:
        if error.args[0].code() not in TRANSIENT:
            raise
        return []
    return [one for one in found if not one.error()]


def commit(consumer: ShareConsumer) -> set[int]:
    """Commit the acknowledgements; return the partitions where they are confirmed."""
    try:
        results = consumer.commit_sync(COMMIT_TIMEOUT_S) or {}
    except KafkaException:
        return set()
    return {place.partition for place, error in dict(results).items() if error is None}


def work(bootstrap: str, topic: str, group: str, name: str, seed: str) -> None:
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    chance = random.Random(f"{name} {seed}")
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": name,
        "share.acknowledgement.mode": "explicit",
        "reconnect.backoff.max.ms": 200,
        "socket.timeout.ms": 6_000,
        "log_level": 2,
    }
    consumer = ShareConsumer(config)
    consumer.subscribe([topic])
    polls: deque[float] = deque([time.monotonic()], POLLS_PER_RESPONSE)
    while not is_over.is_set():
        polls.append(time.monotonic())
        messages = poll(consumer)
        acknowledged = []
        for one in messages:
            words = (one.partition(), one.offset(), one.delivery_count())
            report("delivered", *words, polls[0])
            kind = choose(chance, one.delivery_count() or 0)
            acknowledged.append(words)
            report("acknowledged", *words, kind)
            consumer.acknowledge(one, KINDS[kind])
        if acknowledged:
            confirmed = commit(consumer)
            for words in acknowledged:
                if words[0] in confirmed:
                    report("confirmed", *words, time.monotonic())
    consumer.close()
    report("closed")


if __name__ == "__main__":
    work(*sys.argv[1:])
