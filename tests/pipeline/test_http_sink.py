"""A task of the HTTP sink against a real server: attempts, order, rejected records, and stops."""

import json
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from ottla.pipeline.connect.http_client import HttpFailure
from ottla.pipeline.connect.http_options import HttpOptions
from ottla.pipeline.connect.http_sink import SendTask
from tests.compat.wire_client import eventually
from tests.pipeline.web_hook import Reply, Request, WebHook

pytestmark = pytest.mark.slow

DEAD_LETTER_OPTIONS = {
    "errors__tolerance": "all",
    "errors__deadletterqueue__topic__name": "rejected",
    "kafka__bootstrap__servers": "127.0.0.1:1",
}


@pytest.fixture
def hook() -> Iterator[WebHook]:
    served = WebHook()
    yield served
    served.close()


def rows(*values: str | None, partitions: list[int] | None = None) -> pa.RecordBatch:
    """Return records of topic t, from offset 10 on, with their values as keys."""
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None if value is None else value.encode() for value in values], pa.binary()),
            "value": pa.array([None if value is None else value.encode() for value in values], pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array(partitions or [0] * count, pa.int32()),
            "offset": pa.array(range(10, 10 + count), pa.int64()),
        }
    )


def send(hook: WebHook, batch: pa.RecordBatch, **options: str) -> list[dict[str, object]]:
    """Send a batch and return the rejected records; `__` stands for a dot in options."""
    given = {"http.url": hook.url + "?token=hunter2", "retry.backoff.ms": "1"}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    task = SendTask(HttpOptions.from_options(given), "hooks", "q", 7)
    return [row for rejected in task(iter([batch])) for row in rejected.to_pylist()]


def answers(*replies: Reply) -> Callable[[Request], Reply]:
    """Return a function that gives these replies in turn, then 200."""
    left = list(replies)
    return lambda _request: left.pop(0) if left else Reply()


def test_records_are_sent_one_by_one_and_in_order(hook: WebHook) -> None:
    assert send(hook, rows('{"a": 1}', "2", None), http__header__X_Key="secret".upper()) == []

    assert [request.body for request in hook.requests] == [b'{"a": 1}', b"2", b"null"]
    assert {request.path for request in hook.requests} == {"/hook?token=hunter2"}
    first = hook.requests[0].headers
    assert first["Content-Type"] == "application/json"
    assert first["Idempotency-Key"] == "q/7/t-0/10-10"
    assert first["X_Key"] == "SECRET"


def test_records_of_a_partition_are_sent_as_arrays(hook: WebHook) -> None:
    batch = rows("1", "2", "3", "4", "5", partitions=[0, 0, 0, 1, 1])

    send(hook, batch, batch__max__size="2", http__method="put")

    assert [json.loads(request.body) for request in hook.requests] == [[1, 2], [3], [4, 5]]
    assert [request.headers["Idempotency-Key"] for request in hook.requests] == [
        "q/7/t-0/10-11",
        "q/7/t-0/12-12",
        "q/7/t-1/13-14",
    ]
    assert {request.method for request in hook.requests} == {"PUT"}


def test_transient_errors_are_retried_with_the_same_key(hook: WebHook) -> None:
    hook.answer = answers(
        Reply(status=503, headers={"Retry-After": "soon"}),
        Reply(is_cut=True),
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(),
    )

    assert send(hook, rows("1", "2")) == []

    assert [request.body for request in hook.requests] == [b"1"] * 4 + [b"2"]
    assert len({request.headers["Idempotency-Key"] for request in hook.requests}) == 2


def test_a_long_retry_after_is_cut_short(hook: WebHook) -> None:
    """A pause of a day would stop the query for a day; without the bound this test does not end."""
    hook.answer = answers(Reply(status=503, headers={"Retry-After": "86400"}))

    assert send(hook, rows("1"), retry__after__max__ms="0") == []

    assert len(hook.requests) == 2


def test_an_outage_stops_the_query_even_with_dead_letters(hook: WebHook) -> None:
    hook.answer = lambda _request: Reply(status=503, body=b"later")

    with pytest.raises(HttpFailure, match=r":[0-9]+: answered 503 'later'") as stopped:
        send(hook, rows("1"), max__retries="2", **DEAD_LETTER_OPTIONS)

    assert len(hook.requests) == 3
    assert "hunter2" not in str(stopped.value)


def test_an_unreachable_server_stops_the_query(hook: WebHook) -> None:
    hook.answer = lambda _request: Reply(is_cut=True)

    with pytest.raises(HttpFailure, match=r"no answer \(attempts: 2\)") as stopped:
        send(hook, rows("1"), max__retries="1")

    assert "hunter2" not in str(stopped.value)


def test_a_host_that_no_request_can_name_is_reported_without_a_retry(hook: WebHook) -> None:
    url = f"http://{'a' * 64}.example/?token=hunter2"  # a label of more than 63 characters

    with pytest.raises(HttpFailure, match="the request cannot be sent: ") as stopped:
        send(hook, rows("1"), http__url=url, max__retries="10", retry__backoff__ms="60000")

    assert "hunter2" not in str(stopped.value)


def test_a_request_to_a_silent_server_times_out(hook: WebHook) -> None:
    is_over = threading.Event()

    def wait(_request: Request) -> Reply:
        is_over.wait()
        return Reply(is_cut=True)

    hook.answer = wait
    try:
        with pytest.raises(HttpFailure, match=r"Read timed out. \(read timeout=0\.05\)"):
            send(hook, rows("1"), max__retries="0", request__timeout__ms="50")
    finally:
        is_over.set()


def test_an_answer_without_an_end_is_abandoned(hook: WebHook) -> None:
    """Both with a status that leads to another attempt, and with one that does not."""
    hook.answer = answers(Reply(status=503, is_endless=True), Reply(status=200, is_endless=True))

    assert send(hook, rows("1"), request__timeout__ms="300") == []

    assert eventually(lambda: hook.abandoned, lambda abandoned: abandoned == 2) == 2


def test_a_redirect_is_not_followed(hook: WebHook) -> None:
    hook.answer = lambda _request: Reply(status=302, headers={"Location": hook.url})

    with pytest.raises(HttpFailure, match="answered 302"):
        send(hook, rows("1"))

    assert len(hook.requests) == 1


def test_a_rejected_record_stops_the_query_where_there_are_no_dead_letters(hook: WebHook) -> None:
    """No message contains what the server repeats of the URL: it may be the only secret of the hook."""
    hook.answer = lambda request: Reply(status=422, body=f"no such airport; POST {request.path}".encode())

    with pytest.raises(
        HttpFailure, match=r"t-0@10: .*:[0-9]+ answered 422 'no such airport; POST \[hid"
    ) as stopped:
        send(hook, rows("1"))

    assert "hook" not in str(stopped.value) and "hunter2" not in str(stopped.value)


@pytest.mark.parametrize("status", [422, 503])
def test_text_of_a_server_cannot_control_a_terminal(hook: WebHook, status: int) -> None:
    """Errors are shown on terminals and written to logs: ESC, bells and line ends are escaped."""
    hook.answer = lambda _request: Reply(
        status=status, body=b"\x1b]0;owned\x07\x1b[2J\r\nERROR forged \xc2\x9b31m"
    )

    with pytest.raises(HttpFailure) as stopped:
        send(hook, rows("1"), max__retries="0")

    message = str(stopped.value)
    assert not [one for one in message if ord(one) < 32 or 127 <= ord(one) < 160]
    assert "owned" in message and "ERROR forged" in message


def test_only_records_of_an_array_that_are_rejected_alone_become_dead_letters(hook: WebHook) -> None:
    def reject_two(request: Request) -> Reply:
        return Reply(status=400, body=b"two") if b"2" in request.body else Reply()

    hook.answer = reject_two
    batch = rows("1", "2", "no json", "3")

    rejected = send(hook, batch, batch__max__size="10", **DEAD_LETTER_OPTIONS)

    assert [json.loads(request.body) for request in hook.requests] == [[1, 2, 3], [1], [2], [3]]
    assert [(row["key"], row["value"]) for row in rejected] == [(b"no json", b"no json"), (b"2", b"2")]
    context = {one["key"].removeprefix("__connect.errors."): one["value"] for one in rejected[1]["headers"]}  # type: ignore[attr-defined]
    assert context["topic"] == b"t" and context["partition"] == b"0" and context["offset"] == b"11"
    assert context["connector.name"] == b"hooks" and context["stage"] == b"TASK_PUT"
    assert b"/hook" not in context["exception.message"]
    assert context["exception.message"].endswith(b" answered 400 'two'")
    stage = {one["key"]: one["value"] for one in rejected[0]["headers"]}["__connect.errors.stage"]  # type: ignore[attr-defined]
    assert stage == b"VALUE_CONVERTER"


def test_dead_letters_keep_their_headers(hook: WebHook) -> None:
    hook.answer = lambda _request: Reply(status=400)
    header = [{"key": "trace", "value": b"7"}]
    kind = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
    batch = rows("1").append_column("headers", pa.array([header], kind))

    (bare,) = send(
        hook, batch, errors__deadletterqueue__context__headers__enable="false", **DEAD_LETTER_OPTIONS
    )
    (body,) = send(hook, batch, **DEAD_LETTER_OPTIONS)

    assert bare["headers"] == header
    assert body["headers"][:1] == header and len(body["headers"]) > 5  # type: ignore[index,arg-type]
