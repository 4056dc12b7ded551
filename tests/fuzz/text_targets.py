"""Fuzz targets for texts: regular expressions, settings, tokens, and texts that the REST API parses."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final

from ottla.groupcoord.topic_regex import TopicRegex
from ottla.logstore.log_config import check_topic_configs
from ottla.logstore.record import Record
from ottla.logstore.words.config_def import ConfigValue
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.rest_api.json_schema import problem_of
from ottla.node.rest_api.json_stream import JsonStream
from ottla.node.rest_api.offset_spec import (
    LATEST,
    OFFSET_PATTERN,
    TIMESTAMP_PATTERN,
    parse_cursor,
    parse_offset_spec,
)
from ottla.node.rest_api.record_filter import parse_filter
from ottla.node.rest_api.record_json import delivery_report, parse_record, shown_record
from ottla.node.security.access_token import JwtError
from ottla.node.security.jwks import JwksError, KeySet, read_jwks
from ottla.node.security.jwt import verify_token
from ottla.node.security.sasl.oauthbearer import read_request
from ottla.node.security.sasl.sasl_error import SaslError
from ottla.node.settings.config import BROKER_CONFIG_DEF, parse_config, parse_overrides, refuse_unknown
from ottla.node.settings.group_config_def import check_group_configs
from ottla.node.settings.oauthbearer_settings import TokenRules
from ottla.node.settings.properties_file import parse_properties
from tests import tokens
from tests.fuzz.target import Target, try_all

# An input of 16 KiB takes longer if the time is quadratic.
MAX_CPU_S: Final = 0.2
_NAMES: Final = ("a", "orders.eu-1", "ab" * 124, "__consumer_offsets", "x" * 249)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _match(content: bytes) -> None:
    regex = TopicRegex.compile(_text(content))
    for name in _NAMES:
        regex.matches(name)


def _patterns() -> list[bytes]:
    texts = (
        "orders.*",
        "(?i)a|b",
        "[ab]*a[ab]{100}|(?:.?){350}",
        r"^[\w.-]+$",
        r"\pL+\d{1,9}",
        "(?P<n>a)(?:b)*?",
        "((a*)*)*",
        "[[:alpha:]]|\\Qx\\E",
        "(x+x+)+y",
    )
    return [one.encode() for one in texts]


_SERVER_PROPERTIES: Final = b"""\
# a node
process.roles=broker,controller
node.id = 3
controller.quorum.voters: 3@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093,SSL\\
  ://[::1]:9094
advertised.listeners=PLAINTEXT://h\\u00e4:9092
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
controller.listener.names=CONTROLLER
log.dirs=/tmp/a,/tmp/b
log.retention.ms=-1
log.cleanup.policy=compact,delete
ottla.memory.max.bytes=268435456
ottla.rest.listeners=http://localhost:8080
broker.rack=r
"""


def _configure(content: bytes) -> None:
    texts = parse_properties(content)
    jobs: tuple[Callable[[], object], ...] = (
        lambda: parse_config(texts),
        lambda: refuse_unknown(texts),
        lambda: parse_overrides(_text(content).splitlines()),
        lambda: check_topic_configs(_topic_configs(texts)),
        lambda: check_group_configs(_broker_values(), _topic_configs(texts)),
    )
    try_all(partial(_reject_as_invalid, one) for one in jobs)


def _reject_as_invalid(job: Callable[[], object]) -> None:
    """Run a job, whose only permitted errors are those of invalid settings."""
    try:
        job()
    except KafkaError as error:
        assert error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST), error
        raise


@cache
def _broker_values() -> Mapping[str, ConfigValue]:
    return parse_config({"node.id": "1", "log.dirs": "/tmp/a"}).values


def _topic_configs(texts: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("log."): text for name, text in texts.items()}


def _settings() -> list[bytes]:
    base = b"node.id=1\nlog.dirs=/tmp/a\n"
    found = [_SERVER_PROPERTIES, base]
    for name in BROKER_CONFIG_DEF.keys:
        default = BROKER_CONFIG_DEF.key(name).default
        found.append(base + f"{name}={default if default is not None else 'x'}\n".encode())
    return found


_MAX_DOCUMENT_BYTES: Final = 64 * 1024
_DOCUMENTS: Final = (
    b'{"value":{"type":"STRING","data":"' + b'\\"' * 8_000 + b"}{",
    b'{"value":' * 400 + b"[" + b"1," * 6_000 + b"}{",
    b'{"partition_id":1,"key":{"type":"BINARY","data":"Zm9v"},'
    b'"value":{"type":"JSON","data":{"a":[1,2.50,"\\u00e4"]}}}',
    b'{"value":{"type":"STRING","data":"x}{"},"headers":[{"name":"h","value":"Zm9v"}],'
    b'"timestamp":"2021-02-05T19:14:42Z"} {"value":null}',
    b'{"value":{"type":"JSON","data":' + b"[" * 300 + b"]" * 300 + b"}}",
    b'{"value":{"type":"JSON","data":1e400}}\n{"value":{"type":"JSON","data":123456789012345678901234567890}}',
    b'{"value":{"type":"JSON","data":NaN}}',
)


def _stream(content: bytes) -> None:
    """Read documents in pieces of the size in the first byte, and parse each as a record."""
    if not content:
        return
    step, body = content[0] or 1, content[1:]
    stream, documents = JsonStream(_MAX_DOCUMENT_BYTES), []
    for start in range(0, len(body), step):
        documents += stream.feed(body[start : start + step])
    stream.end()
    whole = JsonStream(_MAX_DOCUMENT_BYTES)
    at_once = list(whole.feed(body))
    whole.end()
    assert len(documents) == len(at_once), f"{len(documents)} documents in pieces, {len(at_once)} at once"
    try_all(partial(_parse_document, one) for one in documents)


def _parse_document(document: bytes) -> None:
    delivery_report(parse_record(document), '"cluster_id":"c","topic_name":"t"', 0, 7, 1)


def _documents() -> list[bytes]:
    return [bytes((step,)) + one for one in _DOCUMENTS for step in (1, 7, 255)]


_RECORDS: Final = tuple(
    Record(offset, 1_000, key, value, (("h", b"x"), ("n", None)))
    for offset, (key, value) in enumerate(
        (
            (b"k", b'{"user":{"id":42,"tags":["a"]},"n":1.0}'),
            (None, b'[1,{"a":null}]'),
            (b"\xff\xfe", b"\xff"),
            (b"", b'{"deep":' + b"[" * 600 + b"]" * 600 + b"}"),
        )
    )
)


def _filter(content: bytes) -> None:
    wanted = parse_filter(_text(content)[:1_000])
    for one in _RECORDS:
        wanted(one)


def _filters() -> list[bytes]:
    texts = (
        "text",
        "$.user.id=42",
        "$.user.tags[0]=a",
        '$key[0].x=="y"',
        "$.n=1",
        "$.n=1e999999",
        "$[1].a=null",
        "$.a=NaN",
    )
    return [one.encode() for one in texts]


def _parse_offsets(content: bytes) -> None:
    """Parse a cursor, and an offset and a timestamp that a `|` separates."""
    text = _text(content)
    offset, _, timestamp = text.partition("|")
    try_all((lambda: parse_cursor(text), lambda: _parse_offset(offset, timestamp)))


def _parse_offset(offset: str, timestamp: str) -> None:
    # The schema of the route is checked first.
    for text, pattern in ((offset, OFFSET_PATTERN), (timestamp, TIMESTAMP_PATTERN)):
        if text and problem_of(text, {"type": "string", "pattern": pattern}, "place") is not None:
            return
    parse_offset_spec(offset or None, timestamp or None, LATEST)


def _show(content: bytes) -> None:
    """Show a record with these bytes as key, value and header."""
    third = len(content) // 3
    record = Record(
        0,
        int.from_bytes(content[:8], signed=True),
        content[:third],
        content[third:],
        ((_name(content), content),),
    )
    for form in ("auto", "binary", "string", "json"):
        shown_record("t", 0, record, form)


def _name(content: bytes) -> str:
    return content[:20].decode("utf-8", "replace")


def _shown() -> Sequence[bytes]:
    return [b'{"a":1}' * 3, b"text", b"\xff\xfe\x00", b"[1.10,NaN]" * 3, b"1" * 90]


_NOW_S: Final = 1_800_000_000


@cache
def _provider_keys() -> KeySet:
    return read_jwks(tokens.published())


def _authenticate(content: bytes) -> None:
    """Read bytes as a first message of OAUTHBEARER, as a token, and as the keys of a provider."""
    token = _text(content)
    try:
        token = read_request(content).token
    except SaslError:
        pass
    try:
        verify_token(token, _provider_keys(), TokenRules(), _NOW_S * 1_000)
    except JwtError:
        pass
    try:
        read_jwks(content)
    except JwksError:
        pass


def _tokens() -> list[bytes]:
    made = [one.token.encode() for one in tokens.cases(_NOW_S)]
    messages = [b"n,a=alice,\x01auth=Bearer %b\x01key=value\x01\x01" % one for one in made]
    return [*made, *messages, tokens.published()]


TARGETS: Final = (
    Target(
        name="access-tokens",
        reads="messages of OAUTHBEARER, access tokens, and the keys of a provider",
        corpus=_tokens,
        run=_authenticate,
    ),
    Target(
        name="patterns",
        reads="regular expressions over names of topics and transactional ids",
        corpus=_patterns,
        run=_match,
    ),
    Target(
        name="settings",
        reads="server.properties, overrides, settings of topics and groups",
        corpus=_settings,
        run=_configure,
        max_cpu_s=MAX_CPU_S,
    ),
    Target(
        name="rest-records", reads="a stream of records as JSON, in pieces", corpus=_documents, run=_stream
    ),
    Target(
        name="rest-filters", reads="filters of records", corpus=_filters, run=_filter, max_cpu_s=MAX_CPU_S
    ),
    Target(
        name="rest-offsets",
        reads="offsets, timestamps and cursors in a query",
        corpus=lambda: [
            b"earliest",
            b"-10|",
            b"0:42,1:17",
            b"|2024-01-01T00:00:00Z",
            b"|1700000000000",
            b"42",
        ],
        run=_parse_offsets,
    ),
    Target(name="rest-shown", reads="records that are returned as JSON", corpus=_shown, run=_show),
)
