"""The authorities of an OAuth provider are reloaded with their file; an unusable file is only logged."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.security import trust_file
from ottla.node.security.retry_schedule import MAX_LOOKS_BETWEEN
from ottla.node.security.trust_file import TrustFile, read_trust

GOOD = trustme.CA().cert_pem.bytes()
OTHER = trustme.CA().cert_pem.bytes()
BROKEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def serials(context: ssl.SSLContext) -> set[object]:
    return {one["serialNumber"] for one in context.get_ca_certs()}


def replace(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def test_a_changed_file_is_reloaded_and_an_unchanged_one_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "ca.pem"
    path.write_bytes(GOOD)

    async def scenario() -> None:
        trust = await TrustFile.open(str(path))
        first = trust.context
        assert not await trust.look() and trust.context is first
        replace(path, GOOD + b"# \xc3\xa9 a comment\n" + OTHER)
        assert await trust.look()
        assert len(serials(trust.context)) == 2 and trust.context.verify_mode is ssl.CERT_REQUIRED
        assert trust.context.check_hostname
        replace(path, OTHER)
        assert await trust.look() and not await trust.look()
        assert serials(trust.context).isdisjoint(serials(first)), (
            "an authority that is no longer in the file is not trusted"
        )
        assert caplog.text.count("were reloaded") == 2

    play(scenario)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no certificate",
        GOOD[:200],
        GOOD + BROKEN,
        b"#" * (1 << 20) + b"#" + GOOD,
        None,
    ],
    ids=["empty", "text", "half", "damaged", "too large", "gone"],
)
def test_an_unusable_file_is_logged_once_and_the_old_authorities_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(GOOD)

    async def scenario() -> None:
        trust = await TrustFile.open(str(path))
        first = trust.context
        path.unlink() if bad is None else replace(path, bad)
        for _ in range(20):
            assert not await trust.look()
        assert trust.context is first and str(path) in trust.refused
        assert caplog.text.count("is still trusted by the old authorities") == 1
        replace(path, OTHER)
        assert await trust.look() and trust.context is not first and trust.refused == ""

    play(scenario)


def test_an_unreadable_file_is_retried_without_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(GOOD)
    attempts = []

    def failing(place: str) -> ssl.SSLContext:
        attempts.append(place)
        raise KafkaError(ErrorCode.INVALID_CONFIG, "the disk failed")

    async def scenario() -> None:
        trust = await TrustFile.open(str(path))
        os.utime(path, ns=(1, 1))
        with monkeypatch.context() as patch:
            patch.setattr(trust_file, "read_trust", failing)
            for _ in range(200):
                await trust.look()
        assert 5 < len(attempts) < 12, "later and later"
        looks = 0
        while not await trust.look():
            looks += 1
            assert looks <= MAX_LOOKS_BETWEEN
        assert trust.refused == ""

    play(scenario)


def test_without_a_file_the_authorities_of_the_system_are_trusted() -> None:
    async def scenario() -> None:
        trust = await TrustFile.open(None)
        first = trust.context
        await asyncio.wait_for(trust.follow(), 5)
        assert not await trust.look() and trust.context is first

    play(scenario)


def test_the_error_for_an_unreadable_file_has_its_path(tmp_path: Path) -> None:
    setting = r"nowhere \(ottla\.sasl\.oauthbearer\.truststore\.location\)"
    with pytest.raises(KafkaError, match=setting) as refused:
        read_trust(str(tmp_path / "nowhere"))

    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "No such file or directory." in refused.value.detail
