"""Share groups in a `GroupWorld`: topics that can change, heartbeats, and share coordinators that answer.

The share coordinators answer at once, unless `holds_jobs`. Appended records are shown by the numbers of their
kinds, a tombstone with a "t": 10 the member, 11 the group epoch, 13 and 12 the target, 14 the partitions of a
member, 15 the states.
"""

from collections.abc import Mapping, Sequence

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult
from ottla.groupcoord.commands import Command
from ottla.groupcoord.consumer.consumer_commands import TopicsChanged
from ottla.groupcoord.consumer.executor_tasks import run_task
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import (
    DeleteShareState,
    Effect,
    InitializeShareState,
    PersisterRequest,
    Refuse,
    Result,
    RunTask,
)
from ottla.groupcoord.share.share_commands import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    ListSharePartitions,
    NewStart,
    ShareGroupHeartbeat,
)
from ottla.groupcoord.share.share_group import ShareGroup, ShareStates
from ottla.groupcoord.share.share_records import SHARE_LAYOUTS
from ottla.groupcoord.share.share_results import (
    AlterShareGroupOffsetsResult,
    DeleteShareGroupOffsetsResult,
    ListSharePartitionsResult,
    ShareGroupHeartbeatResult,
)
from ottla.groupcoord.share_state.share_state_words import InitializeState, SharePartitionKey, StateResult
from ottla.groupcoord.topics_view import ListedTopics, TopicInfo
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld
from tests.unit.groupcoord.topic_ids import topic_id, topic_name


class Persister:
    """Share coordinators that keep the start offset of each share-partition, and fail as a test says."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, InitializeState] = {}
        self.fails: dict[tuple[str, int], ErrorCode] = {}  # by topic and partition
        self.requests: list[PersisterRequest] = []

    def answer(self, job: PersisterRequest) -> Command:
        self.requests.append(job)
        results = []
        for request in job.requests:
            name = topic_name(request.key.topic_id)
            error = self.fails.get((name, request.key.partition), ErrorCode.NONE)
            if error is ErrorCode.NONE:
                if isinstance(request, InitializeState):
                    self.states[request.key] = request
                else:
                    self.states.pop(request.key, None)
            results.append(StateResult(request.key, error, "" if error is ErrorCode.NONE else "told to"))
        return job.done(results)

    def starts(self, group_id: str = "g") -> dict[str, dict[int, int]]:
        """Return the start offsets of the group, by topic and partition."""
        found: dict[str, dict[int, int]] = {}
        for key, state in sorted(self.states.items(), key=lambda item: (item[0].topic_id, item[0].partition)):
            if key.group == group_id:
                name = topic_name(key.topic_id)
                found.setdefault(name, {})[key.partition] = state.start_offset
        return found


class ShareWorld:
    """A cluster with topics "a" (4 partitions) and "b" (2), and no assignment interval, by default."""

    def __init__(
        self, config: CoordinatorConfig | None = None, topics: Mapping[str, int] | None = None
    ) -> None:
        self.groups = GroupWorld(config or CoordinatorConfig(group_share_assignment_interval_ms=0))
        self.groups.take_tasks = self._take_jobs
        self.persister = Persister()
        self.holds_jobs = False
        self.held: list[PersisterRequest] = []
        self.holds_tasks = False
        self.tasks: list[RunTask] = []
        self._version = 0
        self.topics: dict[str, int] = {}
        self.ids: dict[str, bytes] = {}
        self.set_topics(topics or {"a": 4, "b": 2})

    def set_topics(self, topics: Mapping[str, int], ids: Mapping[str, bytes] = {}) -> None:
        """Replace the topics of the cluster by these, with their numbers of partitions."""
        before, self.topics = self.topics, dict(topics)
        self.ids = {name: ids.get(name, topic_id(name)) for name in topics}
        self._version += 1
        changed = {name for name in before | self.topics if before.get(name) != self.topics.get(name)}
        self.groups.handle(
            TopicsChanged(
                topics=self._view(),
                has_new_topics=bool(self.topics.keys() - before.keys()),
                changed=frozenset(changed | set(ids)),
            )
        )

    def _view(self) -> ListedTopics:
        infos = [TopicInfo(self.ids[name], name, count) for name, count in self.topics.items()]
        return ListedTopics(infos, self._version)

    def group(self, group_id: str = "g") -> ShareGroup:
        group = self.groups.coordinator.shard.share_group(group_id)
        assert group is not None
        return group

    def restart(self) -> None:
        """Stop the process, forget the open requests to the share coordinators, and load the shard again."""
        self.groups.restart()
        self.held.clear()
        self.tasks.clear()
        self.groups.handle(TopicsChanged(topics=self._view(), has_new_topics=True, changed=frozenset()))

    def _take_jobs(self, effects: Sequence[Effect]) -> None:
        self.held += [
            effect for effect in effects if isinstance(effect, InitializeShareState | DeleteShareState)
        ]
        self.tasks += [effect for effect in effects if isinstance(effect, RunTask)]
        while self.tasks and not self.holds_tasks:
            self.groups.handle(run_task(self.tasks.pop(0).task))
        if not self.holds_jobs:
            self.release_jobs()

    def release_jobs(self) -> None:
        """Have the share coordinators answer their open requests."""
        while self.held:
            self.groups.handle(self.persister.answer(self.held.pop(0)))

    # ---- members ----------------------------------------------------------------------------------------

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        names: Sequence[str] | None = None,
        *,
        group_id: str = "g",
        rack: str | None = None,
        client_id: str = "c",
    ) -> ShareGroupHeartbeatResult | Refuse:
        """Send one heartbeat with exactly these fields; return its answer."""
        answer = self.groups.ask(
            ShareGroupHeartbeat(
                token=self.groups.token(),
                group_id=group_id,
                member_id=member_id,
                member_epoch=epoch,
                rack_id=rack,
                subscribed_topic_names=names,
                client_id=client_id,
                client_host="/127.0.0.1",
            )
        )
        assert isinstance(answer, ShareGroupHeartbeatResult | Refuse), answer
        return answer

    def join(self, member_id: str, *names: str, group_id: str = "g") -> ShareGroupHeartbeatResult:
        return self._accepted(self.heartbeat(member_id, 0, list(names), group_id=group_id))

    def stay(self, member_id: str, epoch: int, *names: str, group_id: str = "g") -> ShareGroupHeartbeatResult:
        return self._accepted(self.heartbeat(member_id, epoch, list(names) or None, group_id=group_id))

    def leave(self, member_id: str, group_id: str = "g") -> ShareGroupHeartbeatResult:
        return self._accepted(self.heartbeat(member_id, -1, group_id=group_id))

    def refused(
        self, member_id: str, epoch: int, names: Sequence[str] | None = None, **fields: str
    ) -> ErrorCode:
        answer = self.heartbeat(member_id, epoch, names, **fields)  # type: ignore[arg-type]
        assert isinstance(answer, Refuse), answer
        return answer.error

    @staticmethod
    def _accepted(answer: ShareGroupHeartbeatResult | Refuse) -> ShareGroupHeartbeatResult:
        assert isinstance(answer, ShareGroupHeartbeatResult), answer
        return answer

    # ---- administrators ---------------------------------------------------------------------------------

    def alter(self, starts: Mapping[str, Mapping[int, int]], group_id: str = "g") -> int:
        """Request these start offsets; return the token."""
        token = self.groups.token()
        topics = [(name, [NewStart(*one) for one in some.items()]) for name, some in starts.items()]
        self.groups.handle(AlterShareGroupOffsets(token=token, group_id=group_id, topics=topics))
        return token

    def altered(self, token: int) -> dict[str, dict[int, str]]:
        """Return the errors by topic and partition."""
        answer = self.answer(token)
        assert isinstance(answer, AlterShareGroupOffsetsResult), answer
        return {
            name: {one.partition: one.error.name for one in partitions}
            for name, _, partitions in answer.topics
        }

    def delete_offsets(self, *names: str, group_id: str = "g") -> int:
        token = self.groups.token()
        self.groups.handle(DeleteShareGroupOffsets(token=token, group_id=group_id, topics=names))
        return token

    def deleted_offsets(self, token: int) -> dict[str, str]:
        answer = self.answer(token)
        assert isinstance(answer, DeleteShareGroupOffsetsResult), answer
        return {one.name: one.error.name for one in answer.topics}

    def delete_groups(self, *group_ids: str) -> int:
        token = self.groups.token()
        self.groups.handle(DeleteGroups(token=token, group_ids=group_ids))
        return token

    def deleted_groups(self, token: int) -> dict[str, str]:
        answer = self.answer(token)
        assert isinstance(answer, DeleteGroupsResult), answer
        return {group_id: error.name for group_id, error in answer.errors}

    def listed(self, group_id: str = "g") -> dict[str, list[int]]:
        """Return the share-partitions that have state."""
        answer = self.groups.ask(ListSharePartitions(token=self.groups.token(), group_id=group_id))
        assert isinstance(answer, ListSharePartitionsResult), answer
        return {one.topic: list(one.partitions) for one in answer.topics}

    def answer(self, token: int) -> Result | Refuse | None:
        return self.groups.answers.get(token)

    def states(self, group_id: str = "g") -> dict[str, dict[str, list[int]]]:
        """Return the initializing, initialized and deleting partitions of the group, by topic names."""
        states = self.group(group_id).states or ShareStates()
        found = {
            "initializing": {name: sorted(numbers) for name, numbers in states.initializing.values()},
            "initialized": {name: sorted(numbers) for name, numbers in states.initialized.values()},
            "deleting": {name: [] for name in states.deleting.values()},
        }
        return {name: some for name, some in found.items() if some}

    def written(self, since: int) -> str:
        """Return the kinds of the records since that length of the log."""
        return " ".join(
            f"{SHARE_LAYOUTS[type(record)].kind}{'t' if record.value is None else ''}"
            for record in self.groups.log[since:]
        )
