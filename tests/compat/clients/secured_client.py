"""A client that uses confluent-kafka, kafka-python or aiokafka (the only argument).

It reads commands as lines and answers each with a line; SecuredClient.java describes them.
"""

import asyncio
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

with warnings.catch_warnings():  # kafka-python reads its schemas in a way that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 0.05
Settings = dict[str, str]


class Client(Protocol):
    """A client that writes records to partition 0 of one topic, and reads them from the start."""

    def send(self, topic: str, value: bytes) -> None: ...

    def read(self, topic: str, value: bytes) -> None: ...

    def close(self) -> None: ...


class ConfluentClient:
    """librdkafka, which retries for ever, and reports failed logins and handshakes to its application."""

    _REJECTED: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)

    def __init__(self, given: Settings) -> None:
        self._failed: list[KafkaError] = []
        self._errors: dict[str, None] = {}  # all errors reported so far
        names = {"ca": "ssl.ca.location", "user": "sasl.username", "password": "sasl.password"}
        names |= {"mechanism": "sasl.mechanism", "certificate": "ssl.certificate.location"}
        self._config: dict[str, Any] = {
            names.get(name, name): value for name, value in given.items() if name != "token"
        }
        self._config |= {"error_cb": self._on_error, "log_level": 0, "linger.ms": 0}
        if "certificate" in given:
            self._config["ssl.key.location"] = given["certificate"]
        if "token" in given:
            self._config["oauth_cb"] = lambda _: (Path(given["token"]).read_text(), time.time() + 600)
        self._producer = Producer(self._config)

    def _on_error(self, error: KafkaError) -> None:
        self._errors[str(error)] = None
        # librdkafka learns of a fault in the client's own certificate only after the handshake.
        if error.code() in self._REJECTED or "SSL alert" in error.str():
            self._failed.append(error)

    def _until(self, poll: Callable[[], object], holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            poll()
            if self._failed:
                raise KafkaException(self._failed[0])
            assert time.monotonic() < deadline, f"it took too long: {list(self._errors)[-5:]}"

    def send(self, topic: str, value: bytes) -> None:
        reports: list[KafkaError | None] = []
        self._producer.produce(topic, value, partition=0, on_delivery=lambda error, _: reports.append(error))
        self._until(lambda: self._producer.poll(0.1), lambda: bool(reports))
        if (error := reports[0]) is not None:
            raise KafkaException(error)

    def read(self, topic: str, value: bytes) -> None:
        consumer = Consumer({**self._config, "group.id": "none"})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[bytes | None] = []

        def poll() -> None:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())

        self._until(poll, lambda: value in found)
        consumer.close()

    def close(self) -> None:
        self._producer.purge()
        del self._producer  # it would try to connect for ever


class _FileTokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, file: str) -> None:
        self._file = file

    def token(self) -> str:
        return Path(self._file).read_text()


class KafkaPythonClient:
    def __init__(self, given: Settings) -> None:
        self._config: dict[str, Any] = {
            "bootstrap_servers": given["bootstrap.servers"],
            "security_protocol": given["security.protocol"],
            "ssl_cafile": given.get("ca"),
            "ssl_certfile": given.get("certificate"),
            "sasl_mechanism": given.get("mechanism"),
            "sasl_plain_username": given.get("user"),
            "sasl_plain_password": given.get("password"),
            "bootstrap_timeout_ms": 2_000,
        }
        if "token" in given:
            self._config["sasl_oauth_token_provider"] = _FileTokenProvider(given["token"])
        self._producer = kafka.KafkaProducer(
            **self._config, max_block_ms=4_000, delivery_timeout_ms=4_000, request_timeout_ms=2_000
        )

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value, partition=0).get(TIMEOUT_S)

    def read(self, topic: str, value: bytes) -> None:
        consumer = kafka.KafkaConsumer(**self._config, consumer_timeout_ms=TIMEOUT_S * 1000)
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        assert any(record.value == value for record in consumer), "the record was not found"
        consumer.close()

    def close(self) -> None:
        self._producer.close(0)


class _AioTokenOfFile(AioTokenProvider):  # type: ignore[misc]
    def __init__(self, file: str) -> None:
        self._file = file

    async def token(self) -> str:
        return await asyncio.to_thread(Path(self._file).read_text)


class AiokafkaClient:
    def __init__(self, given: Settings) -> None:
        self._runner = asyncio.Runner()
        self._config: dict[str, Any] = {
            "bootstrap_servers": given["bootstrap.servers"],
            "security_protocol": given["security.protocol"],
            "sasl_mechanism": given.get("mechanism", "PLAIN"),
            "sasl_plain_username": given.get("user"),
            "sasl_plain_password": given.get("password"),
        }
        if "ca" in given:
            own = given.get("certificate")
            self._config["ssl_context"] = create_ssl_context(cafile=given["ca"], certfile=own, keyfile=own)
        if "token" in given:
            self._config["sasl_oauth_token_provider"] = _AioTokenOfFile(given["token"])
        self._runner.run(self._start())

    async def _start(self) -> None:
        self._producer = AIOKafkaProducer(**self._config, request_timeout_ms=4_000)
        try:
            await self._producer.start()
        except BaseException:
            await self._producer.stop()
            raise

    def send(self, topic: str, value: bytes) -> None:
        async def sent() -> None:
            await asyncio.wait_for(self._producer.send_and_wait(topic, value, partition=0), TIMEOUT_S)

        self._runner.run(sent())

    def read(self, topic: str, value: bytes) -> None:
        async def found() -> None:
            partition = AioTopicPartition(topic, 0)
            async with AIOKafkaConsumer(**self._config) as consumer:
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                async for record in consumer:
                    if record.value == value:
                        return

        self._runner.run(asyncio.wait_for(found(), TIMEOUT_S))

    def close(self) -> None:
        self._runner.run(self._producer.stop())
        self._runner.close()


class LoggedFailures(logging.Handler):
    """The failures that a library logs: the errors that it raises do not always give the reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def connected(kind: Callable[[Settings], Client], given: Settings) -> Iterator[Client]:
    client = kind(given)
    try:
        yield client
    finally:
        client.close()


def talk(client: Client, topic: str, value: str) -> None:
    """Write this record, and read from the start until it is found."""
    client.send(topic, value.encode())
    client.read(topic, value.encode())


def stay(client: Client, topic: str, milliseconds: str, begun: Callable[[], None]) -> None:
    """Report when a first record is acknowledged, and write more for so long."""
    client.send(topic, b"stay")
    begun()
    end = time.monotonic() + int(milliseconds) / 1000
    while time.monotonic() < end:
        time.sleep(PAUSE_S)
        client.send(topic, b"stay")


def main() -> None:
    """Carry out the command of each line."""
    kinds: dict[str, Callable[[Settings], Client]] = {
        "confluent": ConfluentClient,
        "kafka-python": KafkaPythonClient,
        "aiokafka": AiokafkaClient,
    }
    kind = kinds[sys.argv[1]]
    logged_failures = LoggedFailures()
    logging.basicConfig(handlers=[logged_failures])
    for line in sys.stdin:
        number, command, topic, argument, *settings = line.split()
        logged_failures.lines.clear()
        answer = "ok"
        try:
            with connected(kind, dict(setting.split("=", 1) for setting in settings)) as client:
                if command == "talk":
                    talk(client, topic, argument)
                else:
                    stay(client, topic, argument, partial(print, number, "begun", flush=True))
        except Exception as failure:
            problems = [f"{type(failure).__name__}: {failure}", *logged_failures.lines[-20:]]
            answer = "failed " + " | ".join(problems).replace("\n", " ")
        print(number, answer, flush=True)


if __name__ == "__main__":
    main()
