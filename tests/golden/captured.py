"""The captured frames: what clients sent to Apache Kafka 4.4.0 and what it answered.

`tests/golden/<api>/frames.jsonl` has a line for each pair: version, client, request and response in base64,
without the length prefix. Ten client families; captured on loopback in November 2026.
"""

import base64
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ottla.node.wire.api_keys import ApiKey

FOLDER = Path(__file__).parent
APIS = sorted(path.parent.name for path in FOLDER.glob("*/frames.jsonl"))


class Exchange(NamedTuple):
    """One request with its response."""

    api_key: ApiKey
    version: int
    client: str
    request: bytes
    response: bytes


@cache
def exchanges(api: str) -> tuple[Exchange, ...]:
    """All that was captured of an API, lowest version first."""
    lines = (FOLDER / api / "frames.jsonl").read_text().splitlines()
    return tuple(_exchange(ApiKey[api.upper()], json.loads(line)) for line in lines)


def longest_of_each_version(api: str, max_bytes: int) -> list[Exchange]:
    """For every version the exchange with the most bytes, of those whose frames are not too long."""
    fitting = [one for one in exchanges(api) if max(len(one.request), len(one.response)) <= max_bytes]
    longest = {one.version: one for one in sorted(fitting, key=lambda one: len(one.request + one.response))}
    return list(longest.values())


def _exchange(api_key: ApiKey, line: dict[str, str | int]) -> Exchange:
    return Exchange(
        api_key,
        int(line["version"]),
        str(line["client"]),
        base64.b64decode(str(line["request"])),
        base64.b64decode(str(line["response"])),
    )
