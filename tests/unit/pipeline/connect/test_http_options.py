"""The options of a web hook: each is checked by name, and no secret is shown."""

import pytest

from ottla.pipeline.connect.http_options import HttpOptions
from ottla.pipeline.words import HIDDEN, OptionError, without_secrets

URL = {"http.url": "https://host:8443/hook?token=hunter2"}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "refused",
    "kafka.bootstrap.servers": "127.0.0.1:9092",
}


def test_secrets_are_not_in_the_representation_of_options() -> None:
    options = HttpOptions.from_options({**URL, "http.header.Authorization": "Bearer hunter2"})

    assert options.headers == {"Authorization": "Bearer hunter2"}
    assert options.shown_url == "https://host:8443"
    assert "hunter2" not in repr(options)


def test_parts_of_a_request_that_a_server_may_repeat_are_secrets() -> None:
    url = "https://hooks.example/services/T0001/hunter2%2Fhunter2?token=a%20b%20c&x=1"
    options = HttpOptions.from_options({"http.url": url, "http.header.Authorization": "Bearer hunter3"})

    for text in (
        "Cannot POST /services/T0001/hunter2%2Fhunter2?token=a%20b%20c&x=1",
        "Cannot POST /services/T0001/hunter2/hunter2",
        "no hook hunter2/hunter2 here",
        "token 'a b c' has expired",
        "wrong authorization: hunter3",
    ):
        shown = without_secrets(text, options.secrets)
        assert HIDDEN in shown
        assert not any(secret in shown for secret in ("hunter", "a b c", "a%20b"))
    assert without_secrets("no such service", options.secrets) == "no such service"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "http.url: is missing"),
        ({"http.url": "ftp://hunter2/"}, "http.url: must be http://host:port/path"),
        (
            {"http.url": "https://me:hunter2@host/"},
            "http.url: contains a user name; use http.header.Authorization instead",
        ),
        ({"http.url": "https://host:99999/hunter2"}, "http.url: is not a URL"),
        ({"http.url": "https://host/#hunter2"}, "http.url: contains a fragment"),
        ({"http.url": "https://host/a b"}, "http.url: contains a fragment or a space"),
        ({**URL, "http.method": "get"}, "http.method: is 'get'; it must be one of post, put, patch"),
        ({**URL, "http.header.A B": "x"}, "http.header.A B: names a header 'A B'"),
        (
            {**URL, "http.header.X": "a\r\nhunter2"},
            "http.header.X: has a value that is not allowed in a header",
        ),
        (
            {**URL, "http.header.Idempotency-Key": "x"},
            "http.header.Idempotency-Key: is Idempotency-Key, a header that",
        ),
        ({**URL, "request.body.format": "bytes", "batch.max.size": "2"}, "batch.max.size: is more than 1"),
        ({**URL, "errors.tolerance": "all"}, "errors.deadletterqueue.topic.name: is missing"),
        (
            {**URL, "errors.deadletterqueue.topic.name": "t"},
            "errors.deadletterqueue.topic.name: has no effect",
        ),
        ({**URL, "kafka.acks": "all"}, "kafka.acks: has no effect with errors.tolerance=none"),
        ({**URL, **LETTERS, "kafka.acks": "0"}, "kafka.acks: is 0"),
        ({**URL, "max.retry": "1"}, "max.retry: is not an option here"),
    ],
)
def test_a_wrong_option_is_reported_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        HttpOptions.from_options(options)

    assert str(refused.value).startswith(message)
    assert "hunter2" not in str(refused.value)


def test_dead_letters_have_the_options_of_their_sink() -> None:
    letters = HttpOptions.from_options({**URL, **LETTERS}).dead_letters

    assert letters is not None
    assert (letters.topic, letters.with_headers) == ("refused", True)
    assert letters.client == {"kafka.bootstrap.servers": "127.0.0.1:9092"}
