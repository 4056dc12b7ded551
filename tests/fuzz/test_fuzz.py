"""A short run of each target with a fixed seed: it raises only documented errors and keeps to the limits."""

import logging

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.node.kafka_api.served_apis import SERVED, SERVED_TO_PEERS
from ottla.node.rest_api.rest_error import RestError
from ottla.node.wire import codec
from tests.fuzz.all_targets import TARGETS
from tests.fuzz.target import Tally, Target, walk
from tests.fuzz.wire_targets import request_corpus, response_corpus

EXECUTIONS = 300
SEED = 1


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
def test_hostile_bytes_raise_only_documented_errors(target: Target) -> None:
    logging.disable(logging.CRITICAL)
    try:
        tally = walk(target, SEED, EXECUTIONS)
    finally:
        logging.disable(logging.NOTSET)

    assert not tally.findings, list(tally.findings.values())


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one.name)
def test_each_target_has_some_different_first_inputs_and_a_description(target: Target) -> None:
    assert len(set(target.corpus())) > 2 and target.reads


def test_each_version_of_each_served_api_is_among_the_first_inputs() -> None:
    wanted = {
        (int(api), version)
        for served in (SERVED, SERVED_TO_PEERS)
        for api, (first, last) in served.items()
        for version in range(first, last + 1)
        if schema_of(codec.request_class(api)).min_version <= version
    }
    for corpus in (request_corpus(), response_corpus()):
        assert wanted <= {(int.from_bytes(one[:2]), int.from_bytes(one[2:4])) for one in corpus}


def test_an_undocumented_error_a_server_error_and_a_slow_input_are_findings() -> None:
    def fails(content: bytes) -> None:
        match content:
            case b"rejected":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "too long")
            case b"not found":
                raise RestError(404, 404, "no such topic")
            case b"bug":
                raise IndexError("a bug")
            case b"unknown error":
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug")
            case b"status 500":
                raise RestError(500, 500, "a bug")
            case b"slow":
                sum(range(30_000_000))

    # Above the time of a garbage collection, and below that of the sum.
    target = Target(name="t", reads="t", corpus=list, run=fails, max_cpu_s=0.1)
    tally = Tally()
    findings = [b"bug", b"slow", b"status 500", b"unknown error"]
    for content in (b"fine", b"rejected", b"not found", *findings):
        tally.run(target, content)

    assert (tally.executions, tally.accepted) == (7, 2)
    assert sorted(one.content for one in tally.findings.values()) == findings
