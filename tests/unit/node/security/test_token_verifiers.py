"""The verifier of a listener is made once, when the listener first accepts tokens."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.logstore.words.errors import KafkaError
from ottla.node.security import token_verifiers, trust_file
from ottla.node.security.token_verifiers import TokenVerifiers
from ottla.node.settings.config import BrokerConfig, parse_config

LOGINS = "listener.name.logins.sasl.enabled.mechanisms"


def node(**more: str) -> BrokerConfig:
    return parse_config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,LOGINS://127.0.0.1:0,OTHERS://127.0.0.1:0",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT,OTHERS:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.others.sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": "https://localhost:9/keys",
            "sasl.oauthbearer.expected.audience": "ottla",
            "sasl.oauthbearer.expected.issuer": "https://issuer.example",
            "ottla.sasl.plain.without.tls": "true",
            **more,
        }
    )


def test_a_listener_that_begins_to_accept_tokens_gets_a_verifier_and_keeps_it() -> None:
    async def scenario() -> None:
        verifiers, works = TokenVerifiers(lambda: 0), []

        def start(work: Coroutine[Any, Any, Any], /) -> "asyncio.Task[Any]":
            task = asyncio.get_running_loop().create_task(work)
            works.append(task)
            return task

        before, after = node(), node(**{LOGINS: "OAUTHBEARER"})
        await verifiers.open("OTHERS", after.listener_sasl["OTHERS"].mechanisms["OAUTHBEARER"].tokens)  # type: ignore[arg-type]
        verifiers.settings_changed(before.listener_sasl, start)
        assert works == [] and verifiers.of("LOGINS") is None and verifiers.of("OTHERS") is not None
        for _ in range(3):
            verifiers.settings_changed(after.listener_sasl, start)
        assert len(works) == 1, "the second change comes while it is made"
        async with asyncio.timeout(20):
            while (made := verifiers.of("LOGINS")) is None:
                await asyncio.sleep(0.01)
        verifiers.settings_changed(before.listener_sasl, start)
        verifiers.settings_changed(after.listener_sasl, start)
        assert len(works) == 1 and verifiers.of("LOGINS") is made
        works[0].cancel()
        await asyncio.wait(works)

    asyncio.run(scenario())


def test_unusable_authorities_are_logged_and_retried_at_once_after_a_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "ca.pem"
    config = node(**{LOGINS: "OAUTHBEARER", "ottla.sasl.oauthbearer.truststore.location": str(place)})

    async def scenario() -> None:
        verifiers, works = TokenVerifiers(lambda: 0), []

        def start(work: Coroutine[Any, Any, Any], /) -> "asyncio.Task[Any]":
            works.append(asyncio.get_running_loop().create_task(work))
            return works[-1]

        wanted = {"LOGINS": config.listener_sasl["LOGINS"]}
        with pytest.raises(KafkaError, match="The listener LOGINS cannot offer OAUTHBEARER: The authorities"):
            await verifiers.check(wanted)
        verifiers.settings_changed(wanted, start)
        async with asyncio.timeout(20):
            while "LOGINS does not offer OAUTHBEARER: The authorities in" not in caplog.text:
                await asyncio.sleep(0.01)
        verifiers.settings_changed(wanted, start)
        await asyncio.sleep(0.1)
        assert verifiers.of("LOGINS") is None and len(works) == 1
        assert caplog.text.count("does not offer OAUTHBEARER") == 1, "logged once"

        trustme.CA().cert_pem.write_to_path(str(place))
        await verifiers.check(wanted)
        verifiers.settings_changed(wanted, start)  # otherwise it would be retried some seconds later
        async with asyncio.timeout(4):
            while verifiers.of("LOGINS") is None:
                await asyncio.sleep(0.01)
        place.unlink()
        await verifiers.check(wanted)  # an existing verifier no longer needs the file
        works[0].cancel()
        await asyncio.wait(works)

    asyncio.run(scenario())


def test_a_repaired_file_is_used_without_another_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_verifiers, "LOOK_SECONDS", 0.05)
    place = tmp_path / "ca.pem"
    config = node(**{LOGINS: "OAUTHBEARER", "ottla.sasl.oauthbearer.truststore.location": str(place)})

    async def scenario() -> None:
        verifiers = TokenVerifiers(lambda: 0)
        works: list[asyncio.Task[Any]] = []

        def start(work: Coroutine[Any, Any, Any], /) -> "asyncio.Task[Any]":
            works.append(asyncio.get_running_loop().create_task(work))
            return works[-1]

        verifiers.settings_changed({"LOGINS": config.listener_sasl["LOGINS"]}, start)
        async with asyncio.timeout(20):
            while "does not offer OAUTHBEARER" not in caplog.text:
                await asyncio.sleep(0.01)
            trustme.CA().cert_pem.write_to_path(str(place))
            while verifiers.of("LOGINS") is None:
                await asyncio.sleep(0.01)
        works[0].cancel()
        await asyncio.wait(works)

    asyncio.run(scenario())


def test_rejected_authorities_are_reported_by_listener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust_file, "LOOK_SECONDS", 0.05)
    place = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(place))
    config = node(**{"ottla.sasl.oauthbearer.truststore.location": str(place)})

    async def scenario() -> None:
        verifiers = TokenVerifiers(lambda: 0)
        tokens = config.listener_sasl["OTHERS"].mechanisms["OAUTHBEARER"].tokens
        assert tokens is not None
        verifier = await verifiers.open("OTHERS", tokens)
        running = asyncio.get_running_loop().create_task(verifier.run())
        assert verifiers.refused() == {}
        place.unlink()
        async with asyncio.timeout(20):
            while not verifiers.refused():
                await asyncio.sleep(0.01)
        assert str(place) in verifiers.refused()["OTHERS"] and not running.done()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(scenario())
