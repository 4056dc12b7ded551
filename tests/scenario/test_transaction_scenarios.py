"""Scenarios of transactional ids as text: commands, `----`, and their results. `REWRITE=1` renews the
results.

    config NAME=NUMBER ... [level=N]    settings of the coordinator; before any other command
    epoch N                             the id has had a producer, which is at this epoch
    init NAME [v1] [expects] [2pc] [keep] [timeout=SECONDS]
    add NAME PARTITION ... | verify NAME PARTITION ...
    end NAME commit|abort [over=CONNECTION] [late=COPY] | arrive COPY
    markers [PARTITION ...] | after SECONDSs | crash
    slow | commit [RECORDS]             appended records wait for replicas; that many are committed, or all

NAME is a producer of the one id; it remembers the pair of its last answer, and uses the new protocol unless
it began with `v1`. Results are answers (also late ones), appended records, and markers that are sent.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V1, CLIENT_V2, ProducerPair, Transaction
from ottla.groupcoord.transactions.transaction_commands import EndTransaction
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_records import decode_value
from ottla.groupcoord.transactions.transaction_results import InitProducerResult
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from tests.scenario.scenario import assert_results, milliseconds, parsed
from tests.unit.groupcoord.transactions.states import S, at
from tests.unit.groupcoord.transactions.transaction_world import ID, TransactionWorld

SCENARIOS = sorted((Path(__file__).parent / "transactions").glob("*.txt"))


class Client:
    def __init__(self) -> None:
        self.pair = ProducerPair(-1, -1)
        self.version = CLIENT_V2


def partition(word: str) -> TopicPartition:
    topic, _, number = word.rpartition("-")
    return TopicPartition(topic, int(number))


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.config: dict[str, int] = {}
        self._world: TransactionWorld | None = None
        self.clients: dict[str, Client] = {}
        self.requests: dict[int, tuple[str, str]] = {}  # token -> producer, request
        self.copies: dict[str, tuple[str, EndTransaction]] = {}
        self.reported: set[int] = set()
        self.log_length = 0
        self.jobs_reported: list[MarkerJob] = []

    @property
    def world(self) -> TransactionWorld:
        if self._world is None:
            level = self.config.pop("level", 2)
            self._world = TransactionWorld(TransactionConfig(**self.config), level=level)
        return self._world

    def run(self, line: str) -> list[str]:
        verb, names, options = parsed(line)
        getattr(self, f"do_{verb}")(names, options)
        return list(self.seen())

    def ask(self, name: str, kind: str, token: int) -> None:
        self.requests[token] = (name, kind)

    # ---- commands ------------------------------------------------------------------------------------------

    def do_config(self, names: list[str], options: dict[str, str]) -> None:
        self.config = {name: int(value) for name, value in options.items()}

    def do_epoch(self, names: list[str], options: dict[str, str]) -> None:
        self.world.put(at(S.EMPTY, int(names[0])))
        self.log_length = len(self.world.log)

    def do_init(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients.setdefault(names[0], Client())
        if "v1" in names:
            client.version = CLIENT_V1
        token = self.world.ask_init(
            client.pair if "expects" in names else None,
            timeout_ms=int(options.get("timeout", "60")) * 1_000,
            enable_2pc="2pc" in names,
            keep_prepared="keep" in names,
        )
        self.ask(names[0], "init", token)

    def do_add(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients[names[0]]
        partitions = [partition(word) for word in names[1:]]
        may_wait = client.version == CLIENT_V1
        token = self.world.ask_add(client.pair, *partitions, client_version=client.version, may_wait=may_wait)
        self.ask(names[0], "add", token)

    def do_verify(self, names: list[str], options: dict[str, str]) -> None:
        partitions = [partition(word) for word in names[1:]]
        self.ask(names[0], "verify", self.world.ask_verify(self.clients[names[0]].pair, *partitions))

    def do_end(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients[names[0]]
        command = EndTransaction(
            token=self.world.token(),
            transactional_id=ID,
            producer=client.pair,
            committed=names[1] == "commit",
            client_version=client.version,
            connection_number=int(options.get("over", "1")),
        )
        if "late" in options:
            self.copies[options["late"]] = (names[0], command)
            return
        self.ask(names[0], "end", command.token)
        self.world.handle(command)

    def do_arrive(self, names: list[str], options: dict[str, str]) -> None:
        name, command = self.copies.pop(names[0])
        self.ask(f"{name}'s {names[0]}", "late", command.token)
        self.world.handle(command)

    def do_markers(self, names: list[str], options: dict[str, str]) -> None:
        (job,) = self.world.jobs
        self.world.write_markers(job, [partition(word) for word in names])

    def do_after(self, names: list[str], options: dict[str, str]) -> None:
        self.world.advance(milliseconds(names[0]))

    def do_crash(self, names: list[str], options: dict[str, str]) -> None:
        self.log_length = min(self.log_length, self.world.committed)
        self.world.crash()
        self.jobs_reported.clear()

    def do_slow(self, names: list[str], options: dict[str, str]) -> None:
        self.world.commits = False

    def do_commit(self, names: list[str], options: dict[str, str]) -> None:
        self.world.commits = not names
        self.world.commit(int(names[0]) if names else None)

    # ---- results -------------------------------------------------------------------------------------------

    def seen(self) -> Iterator[str]:
        for _, value in self.world.log[self.log_length :]:
            t = None if value is None else decode_value(ID, value)
            yield "log: forgotten" if t is None else f"log: {in_words(t)}"
        self.log_length = len(self.world.log)
        for token, (name, kind) in self.requests.items():
            answer = self.world.seen(token)
            if answer is None or token in self.reported:
                continue
            self.reported.add(token)
            yield f"{name} {kind}: {self.answered(name, kind, token)}"
        for job in self.world.jobs:
            if job not in self.jobs_reported:
                self.jobs_reported.append(job)
                end = "commit" if job.committed else "abort"
                places = " ".join(str(one) for one in job.partitions)
                yield f"markers to {places}: {end} {job.producer_id}/{job.marker_epoch}"

    def answered(self, name: str, kind: str, token: int) -> str:
        seen = self.world.seen(token)
        if isinstance(seen, ErrorCode):
            return "ok" if seen is ErrorCode.NONE else seen.name
        if isinstance(seen, str):
            return f"{seen}, no answer"
        assert seen is not None
        if kind != "late":
            self.clients[name].pair = seen
        answer = self.world.answers[token]
        ongoing = ""
        if isinstance(answer, InitProducerResult) and answer.ongoing is not None:
            ongoing = " (open: {}/{})".format(*answer.ongoing)
        return f"{seen.producer_id}/{seen.producer_epoch}{ongoing}"


def in_words(t: Transaction) -> str:
    words = [f"{t.state.value} {t.producer_id}/{t.producer_epoch}"]
    if t.partitions:
        words.append(" ".join(str(one) for one in sorted(t.partitions)))
    if t.is_kept:
        words.append(f"client {t.next_producer_id}/{t.next_producer_epoch}")
    elif t.next_producer_id >= 0:
        words.append(f"then {t.next_producer_id}/0")
    return ", ".join(words)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
