"""Random messages of any class and version, made from their declarations alone.

There are two generators: a hypothesis strategy, which shrinks, and a seeded one, which is fast and needs only
a `Random`, as in the compatibility tests.
"""

from random import Random
from typing import Any

from hypothesis import strategies as st

from ottla.logstore.words.schema import Field, Kind, schema_of
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey

INTEGER_BITS = {
    Kind.INT8: (8, True),
    Kind.INT16: (16, True),
    Kind.UINT16: (16, False),
    Kind.INT32: (32, True),
    Kind.UINT32: (32, False),
    Kind.INT64: (64, True),
}
MAX_ARRAY = 3
# Lengths around the limit of a one-byte varint, and letters of more than one byte.
LENGTHS = (0, 1, 2, 7, 126, 127, 128, 300)
LETTERS = "abcdefghijklmnopqrstuvwxyz._-0123456789äß€語😀"


def served_apis() -> list[ApiKey]:
    """Return the APIs that have messages."""
    found = []
    for api_key in ApiKey:
        try:
            codec.request_class(api_key)
        except codec.KafkaError:
            continue
        found.append(api_key)
    return found


def message_classes() -> list[type[Any]]:
    """Return all request and response classes."""
    return [cls for key in served_apis() for cls in (codec.request_class(key), codec.response_class(key))]


def class_versions() -> list[tuple[type[Any], int]]:
    """Return all classes with each of their versions."""
    return [
        (cls, version)
        for cls in message_classes()
        for version in range(schema_of(cls).min_version, schema_of(cls).max_version + 1)
    ]


# ---- with a seed --------------------------------------------------------------------------------


def random_message(cls: type[Any], version: int, random: Random) -> Any:
    """Return a message with every field of the version; some tagged fields keep their default."""
    made = {}
    for field in schema_of(cls).fields:
        if field.is_in(version) and not (field.is_tagged(version) and random.random() < 0.3):
            made[field.name] = _random_field(field, version, random)
    return cls(**made)


def _random_field(field: Field, version: int, random: Random) -> Any:
    if field.is_nullable(version) and random.random() < 0.25:
        return None
    if field.is_array:
        return [_random_value(field, version, random) for _ in range(random.randint(0, MAX_ARRAY))]
    return _random_value(field, version, random)


def _random_value(field: Field, version: int, random: Random) -> Any:
    kind = field.kind
    if kind is Kind.STRUCT:
        assert field.of is not None
        return random_message(field.of, version, random)
    if kind is Kind.STRING:
        return "".join(random.choices(LETTERS, k=random.choice(LENGTHS)))
    if kind in (Kind.BYTES, Kind.RECORDS):
        return random.randbytes(random.choice(LENGTHS))
    if kind is Kind.UUID:
        return random.randbytes(16)
    if kind is Kind.BOOLEAN:
        return random.random() < 0.5
    if kind is Kind.FLOAT64:
        return random.uniform(-1e9, 1e9)
    bits, signed = INTEGER_BITS[kind]
    low = -(2 ** (bits - 1)) if signed else 0
    high = low + 2**bits - 1
    return random.choice((low, high, 0, 1, random.randint(low, high)))


# ---- with hypothesis ----------------------------------------------------------------------------


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy of messages with some of the version's fields; the others have their defaults."""
    optional = {
        field.name: _field_values(field, version) for field in schema_of(cls).fields if field.is_in(version)
    }
    return st.fixed_dictionaries({}, optional=optional).map(lambda made: cls(**made))


def _field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _values(field, version)
    if field.is_array:
        values = st.lists(values, max_size=MAX_ARRAY)
    return st.none() | values if field.is_nullable(version) else values


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    kind = field.kind
    if kind is Kind.STRUCT:
        assert field.of is not None
        return messages(field.of, version)
    if kind is Kind.STRING:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    if kind in (Kind.BYTES, Kind.RECORDS):
        return st.binary(max_size=200)
    if kind is Kind.UUID:
        return st.binary(min_size=16, max_size=16)
    if kind is Kind.BOOLEAN:
        return st.booleans()
    if kind is Kind.FLOAT64:
        return st.floats(allow_nan=False)
    bits, signed = INTEGER_BITS[kind]
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)
