"""Tasks that take too long for the loop: the node runs them in a thread, and their results are commands.

Kafka runs them in its CoordinatorExecutor. `steps` uses only its arguments, which never change, so it may run
beside the shard of the task. It pauses again and again, so that tasks of other groups have their turn and
none waits for its end (D49).
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from ottla.groupcoord.assignors.all_assignors import ASSIGNORS
from ottla.groupcoord.assignors.assignor_spec import GroupSpec
from ottla.groupcoord.assignors.simple_assignor import ShareGroupSpec, assign_simple
from ottla.groupcoord.consumer.consumer_commands import RegexesResolved, TargetComputed
from ottla.groupcoord.group_hash import group_hash
from ottla.groupcoord.topic_regex import TopicRegex
from ottla.groupcoord.topics_view import TopicsView

# CPU time until others have their turn: an ordinary expression needs one to three slices for 10,000 names.
SLICE_CPU_S: Final = 0.02
# CPU time of one expression, in which an ordinary one matches some 300,000 names; beyond it, one is given up.
MAX_REGEX_CPU_S: Final = 1.0
# CPU time of all expressions that a group has matched at once. The rest is matched the next time, and then
# comes first.
MAX_GROUP_CPU_S: Final = 5.0
NAMES_BETWEEN_CLOCK_READS: Final = 8  # a hostile expression takes 3 ms a name


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRegexes:
    """A task that matches topic names with the expressions of a group, in this order.

    `known` has earlier matches of some expressions, over all names but those in `changed_since`.
    """

    group_id: str
    client_host: str  # of the member whose heartbeat has them matched
    regexes: tuple[str, ...]
    topics: TopicsView
    began_ms: int
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    changed_since: Mapping[str, frozenset[str]] = field(default_factory=dict)
    may_describe: Callable[[str], bool] | None = None  # for the topics that this member may see


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignPartitions:
    """A task that has an assignor distribute the partitions of a large group.

    The assignor of a share group is `simple`.
    """

    group_id: str
    client_host: str  # of one of its members
    epoch: int
    assignor: str
    spec: GroupSpec | ShareGroupSpec


ExecutorTask: TypeAlias = ResolveRegexes | AssignPartitions
ExecutorResult: TypeAlias = RegexesResolved | TargetComputed


def steps(task: ExecutorTask, cpu_s: Callable[[], float]) -> Generator[None, None, ExecutorResult]:
    """Do the task, pausing so that others have their turn; the result is a command for the task's shard.

    `cpu_s` is the CPU time of the thread, which may be another one after each pause.
    """
    match task:
        case ResolveRegexes():
            return (yield from _resolve(task, cpu_s))
        case AssignPartitions(group_id=group_id, epoch=epoch, assignor=assignor, spec=spec):
            if isinstance(spec, ShareGroupSpec):
                shares = assign_simple(spec)
                return TargetComputed(group_id=group_id, epoch=epoch, targets=shares, instances={})
            return TargetComputed(
                group_id=group_id,
                epoch=epoch,
                targets=ASSIGNORS[assignor](spec),
                instances={one.instance_id: one.member_id for one in spec.members if one.instance_id},
            )


def run_task(task: ExecutorTask, cpu_s: Callable[[], float] = lambda: 0.0) -> ExecutorResult:
    """Do the task without a pause."""
    execution = steps(task, cpu_s)
    while True:
        try:
            next(execution)
        except StopIteration as end:
            result: ExecutorResult = end.value
            return result


def _resolve(task: ResolveRegexes, cpu_s: Callable[[], float]) -> Generator[None, None, RegexesResolved]:
    names = task.topics.names()
    resolved: dict[str, frozenset[str]] = {}
    given_up: list[str] = []
    spent_s = 0.0
    for regex in task.regexes:
        if spent_s > MAX_GROUP_CPU_S:
            break
        known, changed = task.known.get(regex), task.changed_since.get(regex, frozenset())
        candidates = names if known is None else [name for name in changed if name in names]
        matching, took_s = yield from _matching(regex, candidates, cpu_s)
        spent_s += took_s
        if matching is not None and task.may_describe is not None:
            matching = yield from _visible(matching, task.may_describe, cpu_s)
        if matching is None:
            given_up.append(regex)
        elif known is None or not changed:
            resolved[regex] = frozenset(matching) if known is None else known
        else:
            resolved[regex] = (known - changed).union(matching)
    union = frozenset[str]().union(*resolved.values())
    return RegexesResolved(
        group_id=task.group_id,
        topics=resolved,
        union=union,
        union_hash=group_hash(union, task.topics),
        version=task.topics.version,
        began_ms=task.began_ms,
        given_up=frozenset(given_up),
        cpu_ms=int(spent_s * 1000),
    )


def _visible(
    names: Sequence[str], may_describe: Callable[[str], bool], cpu_s: Callable[[], float]
) -> Generator[None, None, list[str]]:
    """Return the names that the member may see; this time does not count as that of the expression."""
    visible: list[str] = []
    began_s = cpu_s()
    for count, name in enumerate(names, 1):
        if may_describe(name):
            visible.append(name)
        if count % NAMES_BETWEEN_CLOCK_READS == 0 and cpu_s() - began_s >= SLICE_CPU_S:
            yield
            began_s = cpu_s()
    return visible


def _matching(
    regex: str, names: Iterable[str], cpu_s: Callable[[], float]
) -> Generator[None, None, tuple[list[str] | None, float]]:
    """Return the names that match, or None if that takes too much, and the time that it took."""
    matching: list[str] = []
    left = iter(names)
    spent_s = 0.0
    while True:
        began_s = cpu_s()
        # Compiled again in each slice: the expressions of many groups that wait for their turn would take
        # much memory.
        pattern = TopicRegex.compile(regex)
        while (slice_s := cpu_s() - began_s) < SLICE_CPU_S:
            some = list(islice(left, NAMES_BETWEEN_CLOCK_READS))
            if not some:
                return matching, spent_s + slice_s
            matching += filter(pattern.matches, some)
        spent_s += slice_s
        if spent_s > MAX_REGEX_CPU_S:
            return None, spent_s
        del pattern
        yield
