"""Traits of a share group in some runs: dead letters, back-off, delayed delivery, resets, long waits.

A seed picks some of the traits that a run may have, with their numbers, from a random generator of its own,
so that runs without traits stay as they were.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.record import Headers, Record
from ottla.logstore.words.topic_partition import TopicPartition

LETTERS, BACKOFF, DELAYS, RESETS, WAITS = "letters", "backoff", "delays", "resets", "waits"
TRAITS: Final = (LETTERS, BACKOFF, DELAYS, RESETS, WAITS)
# The waits of fetches; the long one exceeds the duration of a record lock.
WAIT_MS: Final = 250
LONG_WAIT_MS: Final = 1_500
LETTER_TOPIC: Final = "dlq.workers"
DELIVER_AT, DELIVER_AFTER = "ottla.deliver.at", "ottla.deliver.after.ms"
DELAYS_MS: Final = (50, 300, 1_500)
DELAYED_TOPICS: Final = frozenset({"a"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The traits of one run."""

    has_letters: bool = False
    copies_records: bool = False
    backoff_ms: int = 0
    backoff_max_ms: int = 1_000
    delays: bool = False
    default_delay_ms: int = 0
    max_delayed: int = 100_000
    resets: bool = False
    fetch_wait_ms: int = WAIT_MS

    def group_configs(self) -> dict[str, str]:
        """Return the configs of the group."""
        configs: dict[str, str] = {}
        if self.has_letters:
            configs["errors.deadletterqueue.topic.name"] = LETTER_TOPIC
            configs["errors.deadletterqueue.copy.record.enable"] = str(self.copies_records).lower()
        if self.backoff_ms:
            configs["ottla.share.retry.backoff.ms"] = str(self.backoff_ms)
            configs["ottla.share.retry.backoff.max.ms"] = str(self.backoff_max_ms)
        return configs

    def topic_configs(self, topic: str) -> dict[str, str]:
        """Return the configs with which a topic is created."""
        if topic == LETTER_TOPIC:
            return {"errors.deadletterqueue.group.enable": "true"}
        if not self.delays or topic not in DELAYED_TOPICS:
            return {}
        return {
            "ottla.delivery.delay.enable": "true",
            "ottla.delivery.delay.ms": str(self.default_delay_ms),
            "ottla.delivery.delay.max.records": str(self.max_delayed),
        }

    def headers(self, partition: TopicPartition, chance: random.Random, now_ms: int) -> Headers:
        """Return the headers of a new record, some of which delay its delivery."""
        if not self.delays or partition.topic not in DELAYED_TOPICS or chance.random() < 0.6:
            return ()
        delay_ms = chance.choice(DELAYS_MS)
        if chance.random() < 0.5:
            return ((DELIVER_AFTER, b"%d" % delay_ms),)
        return ((DELIVER_AT, (now_ms + delay_ms).to_bytes(8, "big")),)

    def due_ms(self, partition: TopicPartition, record: Record) -> int:
        """Return the wall-clock time (ms) before which no member may acquire the record."""
        if not self.delays or partition.topic not in DELAYED_TOPICS:
            return 0
        headers = dict(record.headers)
        at, after = headers.get(DELIVER_AT), headers.get(DELIVER_AFTER)
        if at is not None:
            return int.from_bytes(at, "big")
        return record.timestamp + (self.default_delay_ms if after is None else int(after))

    def wait_ms(self, delivery_count: int) -> int:
        """Return the back-off after an unsuccessful delivery, which doubles each time."""
        if not self.backoff_ms:
            return 0
        wait_ms = self.backoff_ms
        for _ in range(delivery_count - 1):
            wait_ms = min(2 * wait_ms, self.backoff_max_ms)
        return min(wait_ms, self.backoff_max_ms)


def traits_of(seed: int, names: Sequence[str]) -> Traits:
    """Pick some of the named traits, at least one if there are any."""
    if not names:
        return Traits()
    chance = random.Random(f"traits {seed}")
    # Long waits have random numbers of their own, so that the rest of a seed is as it was before this trait
    # existed.
    others = [name for name in names if name != WAITS]
    picked = {name for name in others if chance.random() < 0.5}
    if others and not picked:
        picked = {chance.choice(others)}
    waits_long = WAITS in names and (not others or random.Random(f"waits {seed}").random() < 0.3)
    return Traits(
        has_letters=LETTERS in picked,
        copies_records=chance.random() < 0.5,
        backoff_ms=chance.choice((100, 400)) if BACKOFF in picked else 0,
        backoff_max_ms=chance.choice((300, 1_000)),
        delays=DELAYS in picked,
        default_delay_ms=chance.choice((0, 0, 100)),
        max_delayed=chance.choice((100_000, 8)),
        resets=RESETS in picked,
        fetch_wait_ms=LONG_WAIT_MS if waits_long else WAIT_MS,
    )
