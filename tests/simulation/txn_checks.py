"""The checks of transactions when the cluster has recovered and is at rest.

Every transaction ends: no log has an open one, and no coordinator waits for markers. Then logs and readers
agree with the history of the producers. A log has at most one marker for each epoch of a producer whose epoch
is bumped at each end.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.simulation.history import Content, History
from tests.simulation.sim_client import SimClient, check, pause
from tests.simulation.txn_clients import Marker, Portion, read
from tests.simulation.txn_history import TxnHistory, check_copies
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import CLIENT_PORT, World

AT_REST: Final = {"Empty", "CompleteCommit", "CompleteAbort"}


class Found:
    """The content of a partition for readers of one isolation level."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.values: list[bytes] = []
        self.markers: list[Marker] = []


async def wait_until_ended(
    world: World,
    client: SimClient,
    chance: random.Random,
    partitions: Sequence[TopicPartition],
    *,
    limit_s: float,
) -> None:
    """Wait until no transaction is open in any log or at any coordinator."""
    deadline_s = world.loop.now_s + limit_s
    while (problem := await _open_transaction(world, client, partitions)) is not None:
        if world.loop.now_s > deadline_s:
            raise SimulationError(problem)
        await pause(chance, 0.3)


async def _open_transaction(
    world: World, client: SimClient, partitions: Sequence[TopicPartition]
) -> str | None:
    for node in world.nodes:
        try:
            answer = await client.ask(
                (node.host.name, CLIENT_PORT),
                ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
                ListTransactionsResponse,
            )
            check(answer.error_code)
        except KafkaError as error:
            return f"{node.host.name} does not list transactions: {error}"
        for one in answer.transaction_states:
            if one.transaction_state not in AT_REST:
                return f"{one.transactional_id} stays in {one.transaction_state}"
    for partition in partitions:
        try:
            end = await client.list_offset(partition, -1)
            portion = await read(client, partition, end, committed=True)
        except KafkaError as error:
            client.forget_leader(partition)
            return f"{partition} cannot be read: {error}"
        if portion.last_stable_offset != portion.high_watermark:
            return (
                f"{partition} has a transaction open at {portion.last_stable_offset},"
                f" and ends at {portion.high_watermark}"
            )
    return None


async def read_to_end(
    world: World,
    client: SimClient,
    chance: random.Random,
    partition: TopicPartition,
    *,
    committed: bool,
    limit_s: float,
) -> Found:
    """Return all that a partition shows at an isolation level."""
    deadline_s = world.loop.now_s + limit_s
    found, offset = Found(), 0
    while True:
        try:
            portion: Portion = await read(client, partition, offset, committed=committed)
        except KafkaError as error:
            if world.loop.now_s > deadline_s:
                raise SimulationError(f"{partition} cannot be read after recovery: {error}") from error
            client.forget_leader(partition)
            await pause(chance)
            continue
        found.offsets += [record.offset for record in portion.records]
        found.values += [record.value or b"" for record in portion.records]
        found.markers += portion.markers
        offset = portion.next_offset
        if offset >= portion.high_watermark:
            return found
        if world.loop.now_s > deadline_s:
            raise SimulationError(f"{partition} returns no records at {offset} of {portion.high_watermark}")


def check_logs(
    history: TxnHistory,
    producers: History,
    committed: dict[TopicPartition, Found],
    everything: dict[TopicPartition, Found],
    *,
    level: int,
) -> None:
    """Compare what readers of both isolation levels find with the history of the producers.

    Below level 2 of transaction.version, an abort by the coordinator has no epoch of its own, so the marker
    that the next coordinator repeats is written again.
    """
    for partition, found in everything.items():
        producers.check_end(partition, Content(0, dict(zip(found.offsets, found.values, strict=True))))
        counts = Counter((one.producer_id, one.producer_epoch) for one in found.markers)
        for (producer_id, epoch), count in counts.items():
            if count > 1 and level >= 2 and producer_id in history.epoch_movers:
                raise SimulationError(
                    f"{partition} has {count} markers of producer {producer_id} in epoch {epoch}"
                )
    history.check_end(
        {partition: found.values for partition, found in committed.items()},
        {partition: found.values for partition, found in everything.items()},
    )


def check_all_copies(
    sources: dict[TopicPartition, Found],
    targets: dict[TopicPartition, Found],
    committed_offsets: dict[TopicPartition, int],
) -> None:
    """Check that each record below the group's offset has one copy, and that no other record has one."""
    source_of = {value: partition for partition, found in sources.items() for value in found.values}
    copies: dict[TopicPartition, list[bytes]] = {partition: [] for partition in sources}
    for found in targets.values():
        for value in found.values:
            original = value.split(b":", 2)[2]
            copies[source_of[original]].append(original)
    for partition, found in sources.items():
        check_copies(
            partition, found.values, copies[partition], committed_offsets[partition], offsets=found.offsets
        )
