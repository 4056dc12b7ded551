"""Expressions are matched in slices, within a budget for each and for the group, and only with new names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ottla.groupcoord.consumer.consumer_commands import RegexesResolved
from ottla.groupcoord.consumer.executor_tasks import (
    MAX_GROUP_CPU_S,
    MAX_REGEX_CPU_S,
    SLICE_CPU_S,
    ResolveRegexes,
    run_task,
    steps,
)
from ottla.groupcoord.recent_topics import MAX_NAMES, RecentTopics
from ottla.groupcoord.topics_view import ListedTopics, TopicInfo


@dataclass
class SlowProcessor:
    """A clock that advances by `step_s` each time it is read."""

    step_s: float
    now_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def topics(names: Sequence[str], version: int = 5) -> ListedTopics:
    return ListedTopics([TopicInfo(name.encode(), name, 1) for name in names], version)


def resolved(work: ResolveRegexes, cpu_s: Callable[[], float] = lambda: 0.0) -> RegexesResolved:
    result = run_task(work, cpu_s)
    assert isinstance(result, RegexesResolved)
    return result


MANY = topics([f"t{number}" for number in range(2_000)])


def test_there_is_a_pause_after_each_slice() -> None:
    work = ResolveRegexes(group_id="g", client_host="/h", regexes=("t.*",), topics=MANY, began_ms=1)

    assert len(list(steps(work, lambda: 0.0))) == 0
    pauses = len(list(steps(work, SlowProcessor(SLICE_CPU_S / 10))))

    assert 20 < pauses < 35  # the clock is read some nine times a slice, after eight names each
    assert len(resolved(work, SlowProcessor(SLICE_CPU_S / 10)).topics["t.*"]) == 2_000


def test_an_expression_that_takes_too_much_is_given_up_and_the_next_one_is_matched() -> None:
    work = ResolveRegexes(group_id="g", client_host="/h", regexes=("t.*", "t1"), topics=MANY, began_ms=1)
    processor = SlowProcessor(MAX_REGEX_CPU_S / 200)

    result = resolved(work, processor)

    assert result.given_up == {"t.*", "t1"} and result.topics == {}  # the clock is read 250 times for each
    few = ResolveRegexes(
        group_id="g",
        client_host="/h",
        regexes=("t.*", "t1"),
        topics=MANY,
        began_ms=1,
        known={"t1": frozenset()},
        changed_since={"t1": frozenset({"t1", "t2"})},
    )
    result = resolved(few, SlowProcessor(MAX_REGEX_CPU_S / 200))
    assert result.given_up == {"t.*"} and result.topics == {"t1": {"t1"}}
    assert 1_000 <= result.cpu_ms < 1_200


def test_a_group_that_takes_too_much_has_the_rest_of_its_expressions_for_the_next_time() -> None:
    regexes = tuple(f"t{number}" for number in range(40))
    work = ResolveRegexes(group_id="g", client_host="/h", regexes=regexes, topics=MANY, began_ms=1)

    result = resolved(work, SlowProcessor(MAX_GROUP_CPU_S / 5_000))

    assert not result.given_up
    assert list(result.topics) == list(regexes[: len(result.topics)])
    assert 10 < len(result.topics) < 30
    assert MAX_GROUP_CPU_S <= result.cpu_ms / 1000 < 1.3 * MAX_GROUP_CPU_S


def test_only_names_that_changed_since_are_looked_at() -> None:
    work = ResolveRegexes(
        group_id="g",
        client_host="/h",
        regexes=("a.*",),
        topics=topics(["a0", "a1", "a2", "b1"]),
        began_ms=1,
        known={"a.*": frozenset({"a1", "a3"})},
        changed_since={"a.*": frozenset({"a2", "a3", "b1"})},
    )

    # "a0" would match; it did not change, so it is not looked at.
    assert resolved(work).topics == {"a.*": {"a1", "a2"}}


def test_recent_topics_return_the_changes_as_far_as_they_are_known() -> None:
    recent = RecentTopics()
    recent.add(3, frozenset({"a"}))
    assert recent.since(3) is None
    recent.restart(4)
    recent.add(5, frozenset({"b"}))
    recent.add(7, frozenset({"c", "d"}))

    assert recent.since(3) is None
    assert recent.since(4) == {"b", "c", "d"}
    assert recent.since(5) == recent.since(6) == {"c", "d"}
    assert recent.since(7) == set()


def test_recent_topics_keep_a_bounded_number_of_names() -> None:
    recent = RecentTopics()
    recent.restart(0)
    for version in range(1, MAX_NAMES + 11):
        recent.add(version, frozenset({f"t{version}"}))

    assert recent.since(9) is None
    assert len(recent.since(10) or ()) == MAX_NAMES
    recent.add(MAX_NAMES + 11, frozenset(map(str, range(MAX_NAMES + 1))))
    assert recent.since(MAX_NAMES + 10) is None
    assert recent.since(MAX_NAMES + 11) == set()


def test_only_visible_topics_are_matched_and_checking_them_pauses() -> None:
    work = ResolveRegexes(
        group_id="g",
        client_host="/h",
        regexes=("t.*",),
        topics=MANY,
        began_ms=1,
        may_describe=lambda name: name.endswith("7"),
    )
    plain = replace(work, may_describe=None)

    result = resolved(work)
    more = len(list(steps(work, SlowProcessor(SLICE_CPU_S / 10))))

    assert len(result.topics["t.*"]) == 200 == len(result.union) and not result.given_up
    assert more > len(list(steps(plain, SlowProcessor(SLICE_CPU_S / 10)))) + 15
