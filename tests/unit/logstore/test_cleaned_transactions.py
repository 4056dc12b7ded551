"""The cleaner over logs with transactions, in rounds that each begin where the previous one ended."""

import random
from operator import attrgetter
from typing import Final

import pytest

from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record import ControlType, Record, iterate_records, marker_of_batch
from ottla.logstore.record_batch import iterate_headers
from tests.unit.logstore.test_cleaner import World, config, latest

ONE: Final = 7
PRODUCERS: Final = (ONE, 8)
VALUES: Final = (None, b"", b"twenty bytes of it..")
_OFFSET = attrgetter("offset")


class TransactionalWorld(World):
    """A world with transactional producers, and a consumer with isolation.level=read_committed."""

    def __init__(self) -> None:
        super().__init__(config(segment_bytes=300))
        self._sequences = dict.fromkeys(PRODUCERS, 0)

    def add(self, producer_id: int, *pairs: tuple[bytes, bytes | None]) -> None:
        sequence = self._sequences[producer_id]
        self._sequences[producer_id] += len(pairs)
        self.append(
            *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=1
        )

    def committed_records(self) -> list[Record]:
        """Return the records that a read_committed consumer reads from the start, request by request."""
        offset, seen = self.log.log_start_offset, []
        while offset < self.log.last_stable_offset:
            found = self.log.read(offset, 300, isolation=FetchIsolation.TXN_COMMITTED, minimum_one_batch=True)
            content, next_offset = found.slice.read(), offset
            assert found.aborted_transactions is not None
            waiting, aborted = list(found.aborted_transactions), set()
            for position, header in iterate_headers(content):
                next_offset = header.next_offset
                while waiting and waiting[0].first_offset <= header.last_offset:
                    aborted.add(waiting.pop(0).producer_id)
                batch = content[position : position + header.size_bytes]
                if header.is_control:
                    marker = marker_of_batch(batch)
                    if marker is not None and marker.control_type is ControlType.ABORT:
                        aborted.discard(header.producer_id)
                elif not header.is_transactional or header.producer_id not in aborted:
                    seen += [record for record in iterate_records(batch) if record.offset >= offset]
            offset = next_offset if next_offset > offset else self.log.last_stable_offset
        return seen


def test_records_committed_after_an_abort_before_the_round_are_kept() -> None:
    world = TransactionalWorld()
    world.append((b"a", b"old"))
    world.add(ONE, (b"b", b"aborted"))
    world.end_transaction(ONE, ControlType.ABORT)
    world.log.roll(now_ms=world.now_ms)
    world.run()

    world.add(ONE, (b"a", None))
    world.end_transaction(ONE, ControlType.COMMIT)
    for _ in range(3):
        world.append((b"c", b"1"))
        world.log.roll(now_ms=world.now_ms)
        world.run()
        world.now_ms += 1_001

    assert [record.key for record in world.committed_records()] == [b"c"], "a deleted record is back"


@pytest.mark.parametrize("seed", range(3, 6))
def test_committed_records_match_a_simple_model(seed: int) -> None:
    """Records in and outside transactions, cleaned and restarted at random moments."""
    chance, world = random.Random(seed), TransactionalWorld()
    model: list[Record] = []
    open_ones: dict[int, list[Record]] = {}
    for step in range(250):
        action = chance.choice(("append", "add", "add", "add", "end", "end", "clean", "wait", "restart"))
        producer_id = chance.choice(PRODUCERS)
        if action in ("append", "add"):
            newest = step // 10
            pairs = [
                (b"%d" % chance.randint(newest - 4, newest), chance.choice(VALUES))
                for _ in range(chance.randint(1, 3))
            ]
            records = [
                Record(world.log.log_end_offset + index, world.now_ms, key, value)
                for index, (key, value) in enumerate(pairs)
            ]
            if action == "append":
                world.append(*pairs)
                model += records
            else:
                world.add(producer_id, *pairs)
                open_ones.setdefault(producer_id, []).extend(records)
        elif action == "end" and producer_id in open_ones:
            control_type = chance.choice(list(ControlType))
            world.end_transaction(producer_id, control_type)
            ended = open_ones.pop(producer_id)
            model = sorted(model + ended if control_type is ControlType.COMMIT else model, key=_OFFSET)
        elif action == "clean":
            if chance.random() < 0.5:
                world.log.roll(now_ms=world.now_ms)
            world.run(buffer_bytes=24 * chance.choice((5, 40)))
        elif action == "wait":
            world.now_ms += chance.randint(1, 1_500)
        elif action == "restart" and chance.random() < 0.2:
            world.manager.close()
            world.start()
            world.log.update_high_watermark(world.log.log_end_offset)
        if action not in ("clean", "restart"):
            continue

        seen = world.committed_records()
        # No record is new, moved or aborted. The last record of each key is there, unless it was a tombstone:
        # then it may be gone, but no record that it deleted comes back.
        stable = [record for record in model if record.offset < world.log.last_stable_offset]
        assert set(seen) <= set(stable) and [one.offset for one in seen] == sorted(set(map(_OFFSET, seen)))
        last, last_seen = latest(stable), latest(seen)
        assert all(last_seen.get(key) == record for key, record in last.items() if record.value is not None)
        assert all(record == last[key] for key, record in last_seen.items())
