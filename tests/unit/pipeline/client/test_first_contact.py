"""Nodes that end connections at once: retried for a while, or for long once one has answered."""

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.pipeline.client import first_contact
from ottla.pipeline.client.first_contact import RETRY_MS, FirstContact


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [1_000]
    monkeypatch.setattr(first_contact, "monotonic_ms", lambda: now[0])
    return now


def test_connections_that_keep_ending_are_not_retried(clock: list[int]) -> None:
    contact = FirstContact()

    first = contact.error_of_ended_connection("it wants a login")
    clock[0] += RETRY_MS - 1
    before = contact.error_of_ended_connection("it wants a login")
    clock[0] += 1
    then = contact.error_of_ended_connection("it wants a login")

    assert first.code is before.code is ErrorCode.NETWORK_EXCEPTION
    assert then.code is ErrorCode.INVALID_CONFIG and not then.code.retriable
    assert then.detail == "it wants a login"


def test_connections_are_retried_once_the_cluster_has_answered(clock: list[int]) -> None:
    contact = FirstContact()
    contact.error_of_ended_connection("it is about to stop")
    contact.note_answer()
    clock[0] += 10 * RETRY_MS

    assert contact.error_of_ended_connection("it is about to stop").code is ErrorCode.NETWORK_EXCEPTION
