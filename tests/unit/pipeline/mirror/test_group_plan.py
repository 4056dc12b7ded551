"""The offsets that a group gets in the target."""

from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.mirror.group_plan import plan_commits
from ottla.pipeline.mirror.offset_map import OffsetMap
from tests.unit.pipeline.mirror.test_offset_map import T, map_of


def plan(
    offset: int,
    *,
    forward: OffsetMap,
    there: int | None = None,
    backward: OffsetMap | None = None,
    log_start: int | None = 0,
) -> int | None:
    commits = plan_commits(
        {T: CommittedOffset(offset=offset, metadata="note")},
        {} if there is None else {T: CommittedOffset(offset=there)},
        forward,
        backward=backward,
        log_starts={} if log_start is None else {T: log_start},
    )
    assert all(one.metadata == "note" for one in commits.values())
    return commits[T].offset if commits else None


def test_an_offset_is_translated() -> None:
    assert plan(12, forward=map_of((10, 100, 5))) == 102


def test_a_group_never_goes_back_in_the_target() -> None:
    forward = map_of((10, 100, 5))

    assert plan(12, forward=forward, there=102) is None
    assert plan(12, forward=forward, there=200) is None
    assert plan(12, forward=forward, there=101) == 102


def test_without_a_known_translation_a_group_begins_with_the_log() -> None:
    assert plan(5, forward=OffsetMap(), log_start=7) == 7
    assert plan(5, forward=map_of((10, 100, 5)), log_start=7) == 7


def test_an_offset_that_the_target_has_deleted_is_the_logs_start() -> None:
    assert plan(12, forward=map_of((10, 100, 5)), log_start=150) == 150


def test_a_partition_that_the_target_does_not_have_yet_waits() -> None:
    assert plan(12, forward=map_of((10, 100, 5)), log_start=None) is None


def test_rows_of_the_targets_own_that_had_not_been_copied_back_are_not_left_out() -> None:
    # In the target: its own rows 0 to 9, then ours from 10 on; only 4 of its own had come to the source.
    forward, backward = map_of((0, 10, 5)), map_of((0, 5, 4))

    assert plan(5, forward=forward, backward=backward) == 0
    assert plan(7, forward=forward, backward=backward) == 2
    assert plan(9, forward=forward, backward=backward) == 4
