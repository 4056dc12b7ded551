"""Incomplete responses are reported in a sentence, never as a stack trace."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.cli.failure import explain
from ottla.node.client.cluster_client import check, only


@pytest.mark.parametrize("answers", [[], [1, 2]])
def test_a_response_must_have_exactly_one_result_about_a_topic(answers: list[int]) -> None:
    with pytest.raises(KafkaError, match="answers about topic 'orders'"):
        only(answers, "topic orders")

    assert only([7], "topic orders") == 7


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (None, "topic 'orders' already exists"),
        ("This server does not host it.", "topic 'orders': This server does not host it."),
        ("Topic 'orders' already exists.", "Topic 'orders' already exists."),
    ],
)
def test_an_error_names_its_subject(message: str | None, words: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check(ErrorCode.TOPIC_ALREADY_EXISTS, message, "topic orders")

    assert caught.value.detail == words


@pytest.mark.parametrize(
    ("code", "message", "subject", "sentence"),
    [
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
            "topic t",
            "Topic 't' does not exist (UNKNOWN_TOPIC_OR_PARTITION).",
        ),
        (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "The group id does not exist.",
            "group g",
            "Group 'g' does not exist (GROUP_ID_NOT_FOUND).",
        ),
    ],
)
def test_messages_that_say_no_more_than_the_code_are_replaced(
    code: ErrorCode, message: str, subject: str, sentence: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        check(code, message, subject)

    assert explain(caught.value).startswith(sentence)


def test_an_unknown_error_is_reported_by_its_number() -> None:
    with pytest.raises(KafkaError, match="error 999"):
        check(999, None, "topic orders")

    check(0, "all is well", "topic orders")
