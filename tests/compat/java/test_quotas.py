"""Kafka's Rate and TokenBucket as the reference for ours: the same numbers to the last bit, and waits."""

import struct
from collections.abc import Iterator
from random import Random

import pytest

from ottla.node.quota.rate import MAX_THROTTLE_MS, Rate, Windows
from ottla.node.quota.token_bucket import TokenBucket
from tests.compat.java.conftest import AskJava
from tests.thorough import some_of

SEQUENCES = 400  # for each seed
STEPS = 40

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.parametrize("kind", ["rate", "tokens"])
@pytest.mark.parametrize("seed", some_of(range(20), of_each_run=1))
def test_rates_and_tokens_are_kafkas_to_the_last_bit(ask_java: AskJava, kind: str, seed: int) -> None:
    answers: list[str] = []
    randoms = [Random(seed * SEQUENCES + number) for number in range(SEQUENCES)]
    lines = [line for random in randoms for line in sequence(random, kind, answers)]

    theirs = ask_java("QuotaReference", questions="".join(lines).encode()).decode().split("\n")[:-1]

    assert answers == [capped(one) for one in theirs]
    assert len(set(answers)) > SEQUENCES
    throttled = sum(not one.endswith(" 0") for one in answers)
    assert len(answers) / 20 < throttled < len(answers) * 0.95


def sequence(random: Random, kind: str, answers: list[str]) -> Iterator[str]:
    """Yield values recorded after short and long pauses, with a question after each.

    Our answers are added to `answers`.
    """
    windows = Windows(random.choice((2, 3, 11)), 1_000 * random.choice((1, 1, 2)))
    quota = random.choice((1.0, 10.0, 0.5, random.uniform(0.01, 1_000_000.0)))
    rate, bucket = Rate(windows), TokenBucket(windows)
    now_ms = 1_800_000_000_000 + random.randrange(10**9)
    yield f"{kind} {windows.samples} {windows.window_ms // 1_000} {bits(quota)}\n"
    for _ in range(STEPS):
        now_ms += random.choice((0, 1, random.randrange(500), random.randrange(3_000), 1_000, 11_000, 40_000))
        value = quota * random.choice((0, 1, 3, random.uniform(0, 40)))
        if random.random() < 0.1:
            value = -value
        if random.random() < 0.05:
            quota *= random.choice((0.5, 3.0))
            yield f"quota {bits(quota)}\n"
        if random.random() < 0.8:
            rate.record(value, now_ms)
            bucket.take(quota, value, now_ms)
            yield f"record {bits(value)} {now_ms}\n"
        if kind == "rate":
            waits_ms = rate.throttle_ms(quota, now_ms)
            answers.append(f"{bits(rate.per_second(now_ms))} {waits_ms}")
        else:
            waits_ms = bucket.throttle_ms(quota, now_ms)
            answers.append(f"{bits(bucket.tokens(quota, now_ms))} {waits_ms}")
        yield f"check {now_ms}\n"


def capped(answer: str) -> str:
    number, _, wait = answer.partition(" ")
    return f"{number} {min(int(wait), MAX_THROTTLE_MS)}"


def bits(value: float) -> int:
    found: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return found
