"""The options of a web hook: its URL, the retries, and the handling of refused records."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.option_values import OptionValues, shown
from ottla.pipeline.words import OptionError

METHODS: Final = ("post", "put", "patch")
HEADER_PREFIX: Final = "http.header."
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
MAX_BATCH: Final = 10_000  # records are held as Python objects while they are sent
HOUR_MS: Final = 3_600_000
MIN_SECRET_PART: Final = 8  # characters; a shorter part of a path is a word, such as `hooks`
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_OWN: Final = ("content-length", "content-type", "host", "transfer-encoding", IDEMPOTENCY_KEY.lower())


class BodyFormat(Enum):
    """The format of a value, and so of a body with one value or several."""

    JSON = "json"  # the value; several as an array of values
    STRING = "string"  # the text; several as an array of JSON strings
    BYTES = "bytes"  # the value, always a single one


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """The topic of refused records, and the options of the sink that writes there."""

    topic: str
    with_headers: bool
    client: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """All options of a web hook. `url` and `headers` may be secret: messages show only `shown_url`."""

    url: str = field(repr=False)
    method: str
    headers: Mapping[str, str] = field(repr=False)
    body_format: BodyFormat
    batch_max_size: int
    max_retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    retry_after_max_ms: int
    connection_timeout_ms: int
    request_timeout_ms: int
    dead_letters: DeadLetters | None  # None: the first refused record stops the query

    @property
    def shown_url(self) -> str:
        """The server without the path, which is the password of many services."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def secrets(self) -> frozenset[str]:
        """Parts of a request that a server may repeat: path and query, whole and in parts, and headers."""
        parts = urlsplit(self.url)
        found = {f"{parts.path}?{parts.query}", parts.path, parts.query}
        found |= {one for one in parts.path.split("/") if len(one) >= MIN_SECRET_PART}
        found |= {value for _, value in parse_qsl(parts.query)}
        for value in self.headers.values():
            found |= {value, value.partition(" ")[2]}  # `Bearer TOKEN`
        return frozenset({*found, *map(unquote, found)})

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> "HttpOptions":
        """Read the options; OptionError for the first that cannot be honoured."""
        values = OptionValues(given)
        options = cls(
            url=_url(values.text("http.url")),
            method=values.choice("http.method", METHODS, "post").upper(),
            headers=_headers(values.with_prefix(HEADER_PREFIX)),
            body_format=BodyFormat(
                values.choice("request.body.format", [one.value for one in BodyFormat], "json")
            ),
            batch_max_size=values.integer("batch.max.size", 1, least=1, most=MAX_BATCH),
            max_retries=values.integer("max.retries", 10, least=0, most=1_000),
            retry_backoff_ms=values.integer("retry.backoff.ms", 1_000, least=0, most=HOUR_MS),
            retry_backoff_max_ms=values.integer("retry.backoff.max.ms", 60_000, least=0, most=HOUR_MS),
            retry_after_max_ms=values.integer("retry.after.max.ms", 300_000, least=0, most=24 * HOUR_MS),
            connection_timeout_ms=values.integer("connection.timeout.ms", 10_000, least=1, most=HOUR_MS),
            request_timeout_ms=values.integer("request.timeout.ms", 30_000, least=1, most=HOUR_MS),
            dead_letters=_dead_letters(values),
        )
        values.refuse_others()
        if options.body_format is BodyFormat.BYTES and options.batch_max_size > 1:
            raise OptionError(
                "batch.max.size",
                "is more than 1, but binary values cannot be sent as an array: use json or string",
            )
        return options


def _url(url: str) -> str:
    """Return a valid URL. Errors do not show it, as it may contain a secret."""
    option = "http.url"
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise OptionError(option, "is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        raise OptionError(option, "must be http://host:port/path or https://host/path")
    if parts.username is not None or parts.password is not None:
        raise OptionError(option, f"contains a user name; use {HEADER_PREFIX}Authorization instead")
    if parts.fragment or re.search(r"[\x00-\x20\x7f]", url):
        raise OptionError(option, "contains a fragment or a space")
    return url


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for option, value in given.items():
        name = option[len(HEADER_PREFIX) :]
        if not _TOKEN.fullmatch(name):
            raise OptionError(option, f"names a header {shown(name)}, which is not a valid header name")
        if name.lower() in _OWN:
            raise OptionError(option, f"is {name}, a header that this sink sets itself")
        if not value.isascii() or not value.isprintable():
            raise OptionError(option, "has a value that is not allowed in a header")
        found[name] = value
    return found


def _dead_letters(values: OptionValues) -> DeadLetters | None:
    """Read Kafka Connect's options of dead letters; unlike there, one without effect is an error."""
    tolerates = values.choice("errors.tolerance", ("none", "all"), "none") == "all"
    topic = values.optional("errors.deadletterqueue.topic.name")
    with_headers = values.boolean("errors.deadletterqueue.context.headers.enable", True)
    client = values.with_prefix("kafka.")
    if tolerates and not topic:
        raise OptionError(
            "errors.deadletterqueue.topic.name", "is missing; it is required with errors.tolerance=all"
        )
    if not tolerates and (topic or client):
        name = "errors.deadletterqueue.topic.name" if topic else sorted(client)[0]
        raise OptionError(name, "has no effect with errors.tolerance=none")
    if not topic:
        return None
    ClientSettings.from_options(client, Role.SINK)
    return DeadLetters(topic=topic, with_headers=with_headers, client=client)
