"""Levels of loggers, described and altered as in Apache Kafka: BROKER_LOGGER, resource type 8."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.commands import ConfigOperation
from ottla.node import loggers
from ottla.node.kafka_api import incremental_alter_configs
from ottla.node.kafka_api.config_entries import ConfigSource, logger_entries
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.security.administrators import Administrators
from ottla.node.settings.config import parse_config
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.node.fakes import services_of
from tests.unit.node.replica.replica_world import CONNECTION, NODE_ID

NAME = "ottla.node.replica.isr_updates"
LOGGER = 8


@pytest.fixture(autouse=True)
def restored_levels() -> Iterator[None]:
    root = logging.getLogger().level
    yield
    logging.getLogger(NAME).setLevel(logging.NOTSET)
    logging.getLogger().setLevel(root)


def alter(
    *changes: tuple[str, ConfigOperation, str | None], node: str = str(NODE_ID), validate_only: bool = False
) -> tuple[ErrorCode, str]:
    """Return the error of a request that alters loggers of a node, which needs no controller for it."""
    resource = AlterConfigsResource(
        resource_type=LOGGER,
        resource_name=node,
        configs=[
            AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    services = services_of(
        parse_config({"node.id": str(NODE_ID)}), administrators=Administrators(list, lambda: False)
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    context = RequestContext(44, 1, 1, "test", CONNECTION)
    [answer] = asyncio.run(incremental_alter_configs.handle(services, context, request)).responses
    return ErrorCode(answer.error_code), answer.error_message or ""


def test_a_level_holds_until_it_is_removed() -> None:
    logging.getLogger(NAME)
    before = loggers.levels()[NAME]

    assert alter((NAME, ConfigOperation.SET, "DEBUG"))[0] is ErrorCode.NONE
    assert logging.getLogger(NAME).isEnabledFor(logging.DEBUG)
    assert loggers.levels()[NAME] == "DEBUG"

    assert alter((NAME, ConfigOperation.DELETE, None))[0] is ErrorCode.NONE
    assert loggers.levels()[NAME] == before


def test_a_request_that_only_validates_changes_nothing() -> None:
    before = loggers.levels()

    assert alter((NAME, ConfigOperation.SET, "TRACE"), validate_only=True)[0] is ErrorCode.NONE

    assert loggers.levels() == before


@pytest.mark.parametrize(
    ("name", "operation", "value", "code", "words"),
    [
        ("nobody.here", ConfigOperation.SET, "INFO", ErrorCode.INVALID_CONFIG, "nobody.here does not exist!"),
        (NAME, ConfigOperation.SET, "LOUD", ErrorCode.INVALID_CONFIG, "not a supported log level"),
        (NAME, ConfigOperation.SET, None, ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ("root", ConfigOperation.DELETE, None, ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
        (NAME, ConfigOperation.APPEND, "INFO", ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
    ],
)  # fmt: skip
def test_requests_that_kafka_rejects_are_rejected_as_a_whole(
    name: str, operation: ConfigOperation, value: str | None, code: ErrorCode, words: str
) -> None:
    logging.getLogger(NAME)
    before = loggers.levels()

    refused, message = alter((NAME, ConfigOperation.SET, "ERROR"), (name, operation, value))

    assert refused is code and words in message
    assert loggers.levels() == before


@pytest.mark.parametrize("node", ["", "9", "x"])
def test_a_request_for_another_node_is_rejected(node: str) -> None:
    assert alter((NAME, ConfigOperation.SET, "INFO"), node=node)[0] is ErrorCode.INVALID_REQUEST


def test_all_own_loggers_are_described_with_their_source() -> None:
    logging.getLogger(NAME)
    entries = {one.key.name: one for one in logger_entries()}

    assert {
        "root",
        "ottla",
        "ottla.node",
        "ottla.metadata_raft",
        "ottla.logstore",
        "ottla.groupcoord",
        "ottla.audit",
        "kafka.authorizer.logger",
        NAME,
    } <= entries.keys()
    assert not any(name.startswith(("asyncio", "aiohttp")) for name in entries)
    assert entries[NAME].source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    assert entries[NAME].value in loggers.LEVELS and not entries[NAME].read_only


def test_the_audit_log_also_has_kafkas_name() -> None:
    audit = logging.getLogger("ottla.audit")
    try:
        assert alter(("kafka.authorizer.logger", ConfigOperation.SET, "ERROR"))[0] is ErrorCode.NONE
        assert not audit.isEnabledFor(logging.WARNING)
        levels = loggers.levels()
        assert levels["kafka.authorizer.logger"] == levels["ottla.audit"] == "ERROR"

        assert alter(("kafka.authorizer.logger", ConfigOperation.DELETE, None))[0] is ErrorCode.NONE
        assert audit.level == logging.NOTSET
    finally:
        audit.setLevel(logging.NOTSET)
