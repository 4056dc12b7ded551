"""Encoded responses are kept within their limit."""

from ottla.node.metadata.encoded_answers import EncodedAnswers


def test_a_body_counts_once_although_two_requests_encoded_it() -> None:
    answers = EncodedAnswers(limit_bytes=10)
    answers.put(("a",), [b"1234"])
    answers.put(("a",), [b"1234"])

    assert answers.used_bytes == 4 and answers.get(("a",)) == [b"1234"]


def test_a_body_beyond_the_limit_is_not_kept() -> None:
    answers = EncodedAnswers(limit_bytes=10)
    answers.put(("a",), [b"1234"])
    answers.put(("b",), [b"1234567"])
    assert answers.get(("b",)) is None

    answers.clear()
    answers.put(("b",), [b"1234567"])
    assert answers.used_bytes == 7
