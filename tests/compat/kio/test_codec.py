"""kio as the reference: it decodes what our encoders write, and encodes it again to the same bytes.

kio has a class for each version of each message, which other people generated from Apache Kafka's
definitions. It follows Kafka 4.3, so it lacks the additions of 4.4. It turns some numbers into Python types
that cannot hold every number, such as `datetime`.
"""

import importlib
import io
from random import Random
from typing import Any

import pytest

from ottla.logstore.words.schema import Kind, replace, schema_of
from ottla.logstore.words.schema_compiler import encode
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.codec import request_class, response_class
from tests.property.random_messages import random_message, served_apis

kio_serial = pytest.importorskip("kio.serial")

ROUNDS_PER_VERSION = 3
# (API, first version) that kio 0.6 does not have.
UNKNOWN_TO_KIO = {
    ApiKey.API_VERSIONS: 5,
    ApiKey.TXN_OFFSET_COMMIT: 6,
    ApiKey.DELETE_GROUPS: 3,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 1,
    ApiKey.STREAMS_GROUP_DESCRIBE: 1,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: 0,
    ApiKey.UNREGISTER_CONTROLLER: 0,
}
ERROR_CODES = (0, 1, 3, 6, 42, 100)
MAX_MS = 2**41  # kio makes a datetime or a timedelta of it; this is in the year 2039
FIRST_OWN_TAG = 10_000


def test_kio_still_lacks_the_listed_versions() -> None:
    for api, version in UNKNOWN_TO_KIO.items():
        with pytest.raises(ModuleNotFoundError):
            kio_class(api, version, "Request")


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
@pytest.mark.parametrize("direction", ["Request", "Response"])
def test_kio_reads_and_writes_what_we_write(api: ApiKey, direction: str) -> None:
    cls = request_class(api) if direction == "Request" else response_class(api)
    schema = schema_of(cls)
    random = Random(f"{api}{direction}")
    last = min(schema.max_version, UNKNOWN_TO_KIO.get(api, schema.max_version + 1) - 1)
    if last < schema.min_version:
        pytest.skip(f"kio has no {schema.name}")
    for version in range(schema.min_version, last + 1):
        kio_type = kio_class(api, version, direction)
        for _ in range(ROUNDS_PER_VERSION):
            sent = encode(readable_by_kio(random_message(cls, version, random), random), version)

            read, size = kio_serial.entity_reader(kio_type)(sent, 0)
            written = io.BytesIO()
            kio_serial.entity_writer(kio_type)(written, read)

            assert size == len(sent)
            assert written.getvalue() == sent


def kio_class(api: ApiKey, version: int, direction: str) -> Any:
    module = importlib.import_module(f"kio.schema.{api.name.lower()}.v{version}.{direction.lower()}")
    return getattr(module, f"{api.api_name}{direction}")


def readable_by_kio(message: Any, random: Random) -> Any:
    """Return the message with error codes, times and durations that kio can hold, without our own tags.

    Unlike Kafka's clients, kio rejects tags that it does not know.
    """
    changes: dict[str, object] = {}
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.tag is not None and field.tag >= FIRST_OWN_TAG:
            changes[field.name] = field.default
        elif field.kind is Kind.STRUCT and value is not None:
            changes[field.name] = (
                [readable_by_kio(one, random) for one in value]
                if field.is_array
                else readable_by_kio(value, random)
            )
        elif field.kind is Kind.INT16 and "error_code" in field.name:
            changes[field.name] = random.choice(ERROR_CODES)
        elif field.kind is Kind.INT64 and ("_ms" in field.name or "timestamp" in field.name):
            changes[field.name] = random.randint(0, MAX_MS)
    return replace(message, **changes)
