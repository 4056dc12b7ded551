"""A member of a share group in a process of its own (librdkafka), told and telling by lines.

    python -m tests.chaos.share_worker BOOTSTRAP TOPIC GROUP NAME SEED
Out, one a line, before anything else happens:
    given PARTITION OFFSET COUNT SINCE     a delivery; SINCE is a time before the leader can have made it
    said PARTITION OFFSET COUNT KIND       accept, release or reject
    done PARTITION OFFSET COUNT TIME       the answer: what was said holds
It works until its input ends, and leaves the group then. Times are of the machine's monotonic clock.
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
# An answer that came during one poll is returned by it, or by the next where two leaders have answered; so a
# record that is returned was not given before the last polls but these.
POLLS_OF_AN_ANSWER = 3
# What is released now and then is accepted at last.
MAX_RELEASED_COUNT = 4
KINDS = {ACCEPT: AcknowledgeType.ACCEPT, RELEASE: AcknowledgeType.RELEASE, REJECT: AcknowledgeType.REJECT}
# A member whose coordinator is on its way, or whose cluster stands still, goes on.
PASSING = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.REQUEST_TIMED_OUT,
)


def tell(*words: object) -> None:
    print(*words, flush=True)


def judge(chance: random.Random, count: int) -> str:
    kinds = (ACCEPT, RELEASE, REJECT) if count <= MAX_RELEASED_COUNT else (ACCEPT, REJECT)
    return chance.choices(kinds, (85, 10, 5)[: len(kinds)])[0]


def poll(consumer: ShareConsumer) -> list[Message]:
    try:
        found: list[Message] = consumer.poll(POLL_S)
    except KafkaException as error:
        if error.args[0].code() not in PASSING:
            raise
        return []
    return [one for one in found if not one.error()]


def commit(consumer: ShareConsumer) -> set[int]:
    """Return the partitions whose acknowledgements hold."""
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
    polls: deque[float] = deque([time.monotonic()], POLLS_OF_AN_ANSWER)
    while not is_over.is_set():
        polls.append(time.monotonic())
        messages = poll(consumer)
        said = []
        for one in messages:
            words = (one.partition(), one.offset(), one.delivery_count())
            tell("given", *words, polls[0])
            kind = judge(chance, one.delivery_count() or 0)
            said.append(words)
            tell("said", *words, kind)
            consumer.acknowledge(one, KINDS[kind])
        if said:
            held = commit(consumer)
            for words in said:
                if words[0] in held:
                    tell("done", *words, time.monotonic())
    consumer.close()
    tell("closed")


if __name__ == "__main__":
    work(*sys.argv[1:])
