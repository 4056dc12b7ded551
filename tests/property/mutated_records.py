"""Valid records of a batch, and mutations of them as an attacker would send."""

import random
from typing import NamedTuple

from ottla.logstore.record import append_record
from ottla.logstore.record_batch import HEADER, HEADER_SIZE

BASE_MS = 1_700_000_000_000
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_BYTES = (0, 1, 2, 3, 0x0C, 0x0E, 0x7F, 0x80, 0xFE, 0xFF)


class Case(NamedTuple):
    """The arguments of a walk over records."""

    content: bytes
    count: int
    base_timestamp: int
    earliest: int
    latest: int
    needs_key: bool


def some_case(chance: random.Random) -> Case:
    """Return a few records, often with bytes changed, and a time window outside which some may be."""
    base = chance.choice([BASE_MS, -1, 0, LONG_MAX, LONG_MIN])
    content = bytearray()
    count = chance.randrange(1, 8)
    for index in range(count):
        append_record(
            content,
            timestamp_delta=chance.choice([0, 0, -1, 5, -300, 10**7, 2**40, -(2**62), 2**62]),
            offset_delta=index if chance.random() < 0.97 else chance.choice([-1, 0, index + 1, 2**31 - 1]),
            key=chance.choice([None, b"", b"k" * chance.randrange(200)]),
            value=chance.choice([None, b"", chance.randbytes(chance.randrange(300))]),
            headers=tuple(_some_header(one, chance) for one in range(chance.choice([0, 0, 1, 3]))),
        )
    for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 5])):
        _change(content, chance)
    if chance.random() < 0.1:
        count = chance.choice([0, 1, count + 1, max(count - 1, 0), 1000, 2**31 - 1])
    window = chance.choice([(LONG_MIN, LONG_MAX), (BASE_MS - 1000, BASE_MS + 1000), (0, 2**62)])
    return Case(bytes(content), count, base, *window, chance.random() < 0.3)


def some_header_of_a_batch(chance: random.Random) -> bytes:
    """Return a batch of one record that is never opened; usually a field of its header is wrong."""
    records = chance.randbytes(chance.randrange(9))
    fields = [0, 49 + len(records), -1, 2, 2**32 - 1, 0, 0, BASE_MS, BASE_MS, -1, -1, -1, 1]
    widths = (64, 32, 32, 8, 0, 16, 32, 64, 64, 64, 16, 32, 32)  # in bits; 0: any number is accepted
    for _ in range(chance.choice([0, 1, 1, 1, 2])):
        at = chance.randrange(len(fields))
        if widths[at]:
            most = 2 ** (widths[at] - 1)
            near = fields[at] + chance.choice([-1, 1])
            number = chance.choice([near, near, 0, 4, 5, 16, 2, -most, most - 1])
            fields[at] = max(-most, min(number, most - 1))
    batch = HEADER.pack(*fields) + records
    return batch[: chance.choice([len(batch), len(batch), len(batch), HEADER_SIZE - 1, HEADER_SIZE, 0])]


def _some_header(place: int, chance: random.Random) -> tuple[str, bytes | None]:
    if chance.random() < 0.5:
        return f"h{place}", chance.choice([None, b"", b"xy"])
    name = chance.choice(["ottla.deliver.at", "ottla.deliver.after.ms"])
    number = chance.choice([0, 1, 5, 10**6, BASE_MS + 7, 10**18, LONG_MAX, 2**63, 10**19, 10**29])
    text = b"%d" % number
    as_bytes = (number % 2**64).to_bytes(8, "big")
    hostile = (None, b"", b"-5", b"+5", b" 5", b"5\0", b"12345678", b"\xff" * 8, b"0" * 19, b"0" * 20)
    return name, chance.choice([text, text, as_bytes, as_bytes[1:], *hostile])


def _change(content: bytearray, chance: random.Random) -> None:
    if not content:
        return
    # The first bytes have more lengths than the others.
    size = min(len(content), 12) if chance.random() < 0.4 else len(content)
    place, kind = chance.randrange(size), chance.random()
    if kind < 0.5:
        content[place] = chance.choice([*_BYTES, chance.randrange(256)])
    elif kind < 0.65:
        del content[place : place + chance.randrange(1, 4)]
    elif kind < 0.8:
        content[place:place] = chance.randbytes(chance.randrange(1, 4))
    elif kind < 0.9:
        content[place:place] = b"\x80" * chance.randrange(1, 12)
    else:
        del content[place:]
