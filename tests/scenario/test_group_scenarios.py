"""Scenarios of groups as text: commands, `----`, and their results. `REWRITE=1` renews the results.

    config NAME=NUMBER ...              settings of the coordinator; before any other command
    join NAME [instance=I] [protocols=a,b] [metadata=TEXT] [direct] [without-id]
         [reason=TEXT]                  direct: no MEMBER_ID_REQUIRED (KIP-394); without-id: as a new member
    sync NAME [all | NAME=ASSIGNMENT ...]
    heartbeat NAME [hold=MILLISECONDS]  which may be held for that long
    sends NAME                          it sends another request while its heartbeat is held
    leave NAME ... [reason=TEXT] | remove instance=I
    commit NAME TOPIC-PARTITION=OFFSET ... | fetch | after SECONDSs | restart | timeline

NAME is a client; it remembers the member id and generation of its last answer. Results are answers (also late
ones), appended records, and the state when it has changed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.groupcoord.admin_commands import DescribeGroups
from ottla.groupcoord.admin_results import DescribeGroupsResult
from ottla.groupcoord.classic.member_commands import Heartbeat, MemberIdentity
from ottla.groupcoord.classic.member_results import (
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    SyncGroupResult,
)
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.group_records import OffsetRecord
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetFetch, OffsetToCommit
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetFetchResult
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.timer_commands import AnswerHeldHeartbeat
from ottla.logstore.words.errors import ErrorCode
from tests.scenario.scenario import assert_results, milliseconds, parsed
from tests.scenario.timeline_words import in_words
from tests.unit.groupcoord.group_world import GroupWorld

SCENARIOS = sorted((Path(__file__).parent / "groups").glob("*.txt"))


class Client:
    def __init__(self) -> None:
        self.member_id, self.generation_id, self.instance = "", -1, None
        self.members: list[str] = []
        self.protocols = "range"


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.config: dict[str, int] = {}
        self._world: GroupWorld | None = None
        self.clients: dict[str, Client] = {}
        self.requests: dict[int, tuple[str, str]] = {}  # token -> client, request
        self.reported: set[int] = set()
        self.log_length = 0
        self.state = "Dead"

    @property
    def world(self) -> GroupWorld:
        if self._world is None:
            self._world = GroupWorld(CoordinatorConfig(**self.config))
        return self._world

    def run(self, line: str) -> list[str]:
        verb, names, options = parsed(line)
        getattr(self, f"do_{verb}")(names, options)
        return list(self.seen())

    def do_config(self, names: list[str], options: dict[str, str]) -> None:
        self.config = {name: int(value) for name, value in options.items()}

    def do_join(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients.setdefault(names[0], Client())
        if "without-id" in names:
            client.member_id, client.generation_id = "", -1
        client.instance = options.get("instance", client.instance)
        client.protocols = options.get("protocols", client.protocols)
        metadata = options.get("metadata", "").encode()
        token = self.world.join(
            client.member_id,
            instance=client.instance,
            protocols=[(name, metadata) for name in client.protocols.split(",")],
            member_id_required="direct" not in names,
            client_id=names[0],
            reason=options.get("reason"),
        )
        self.requests[token] = names[0], "join"

    def do_sync(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients[names[0]]
        assignments = [(self.clients[name].member_id, text.encode()) for name, text in options.items()]
        if "all" in names:
            assignments = [(each, f"for {each}".encode()) for each in client.members]
        token = self.world.sync(client.member_id, client.generation_id, assignments, instance=client.instance)
        self.requests[token] = names[0], "sync"

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients[names[0]]
        token = self.world.token()
        self.requests[token] = names[0], "heartbeat"
        self.world.handle(
            Heartbeat(
                token=token,
                group_id="g",
                generation_id=client.generation_id,
                member_id=client.member_id,
                group_instance_id=client.instance,
                hold_ms=int(options.get("hold", 0)),
            )
        )

    def do_sends(self, names: list[str], options: dict[str, str]) -> None:
        member_id = self.clients[names[0]].member_id
        for token in sorted(self.world.waiting()):
            if self.requests[token] == (names[0], "heartbeat"):
                self.world.handle(AnswerHeldHeartbeat(group_id="g", member_id=member_id, held=token))

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        clients = [self.clients[name] for name in names]
        reason = options.get("reason")
        before = self.world.requested.copy()
        self.world.leave(*(MemberIdentity(each.member_id, each.instance, reason) for each in clients))
        (token,) = self.world.requested - before
        self.requests[token] = " ".join(names), "leave"

    def do_remove(self, names: list[str], options: dict[str, str]) -> None:
        before = self.world.requested.copy()
        self.world.leave(MemberIdentity("", options["instance"]))
        (token,) = self.world.requested - before
        self.requests[token] = options["instance"], "remove"

    def do_commit(self, names: list[str], options: dict[str, str]) -> None:
        client = self.clients.get(names[0], Client())
        offsets = []
        for place, offset in options.items():
            topic, _, partition = place.rpartition("-")
            offsets.append(OffsetToCommit(topic, int(partition), int(offset)))
        token = self.world.token()
        self.requests[token] = names[0], "commit"
        self.world.handle(
            OffsetCommit(
                token=token,
                group_id="g",
                generation_id=client.generation_id,
                member_id=client.member_id,
                group_instance_id=client.instance,
                offsets=offsets,
            )
        )

    def do_fetch(self, names: list[str], options: dict[str, str]) -> None:
        token = self.world.token()
        self.requests[token] = "admin", "fetch"
        self.world.handle(OffsetFetch(token=token, group_id="g", topics=None))

    def do_after(self, names: list[str], options: dict[str, str]) -> None:
        self.world.advance(milliseconds(names[0]))

    def do_restart(self, names: list[str], options: dict[str, str]) -> None:
        self.world.restart()

    def do_timeline(self, names: list[str], options: dict[str, str]) -> None:
        token = self.world.token()
        self.requests[token] = "admin", "timeline"
        self.world.handle(DescribeGroups(token=token, group_ids=["g"]))

    # ---- results -----------------------------------------------------------------------------------------

    def seen(self) -> Iterator[str]:
        if self._world is None:
            return
        for record in self.world.log[self.log_length :]:
            yield f"log: {describe(record)}"
        self.log_length = len(self.world.log)
        for token, (name, request) in self.requests.items():
            if token in self.world.answers and token not in self.reported:
                self.reported.add(token)
                yield f"{name}: {request} {self.answer(name, self.world.answers[token])}"
        state = self.world.state().value
        if state != self.state:
            self.state = state
            yield f"state: {state}"

    def answer(self, name: str, answer: Any) -> str:
        match answer:
            case Refuse(_, error, _):
                return error.name
            case JoinGroupResult():
                client = self.clients[name]
                if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                    client.member_id = answer.member_id
                    return f"MEMBER_ID_REQUIRED {answer.member_id}"
                if answer.error is not ErrorCode.NONE:
                    return answer.error.name
                client.member_id, client.generation_id = answer.member_id, answer.generation_id
                client.members = [member.member_id for member in answer.members]
                metadata = [f"{each.member_id}:{each.metadata.decode()}" for each in answer.members]
                members = f" members={','.join(metadata)}" if metadata else ""
                skips = " skip_assignment" if answer.skip_assignment else ""
                return (
                    f"ok {answer.member_id} generation={answer.generation_id} {answer.protocol_name}"
                    f" leader={answer.leader}{members}{skips}"
                )
            case SyncGroupResult():
                return answer.error.name if answer.error else f"ok {answer.assignment.decode()!r}"
            case HeartbeatResult():
                return answer.error.name if answer.error else "ok"
            case LeaveGroupResult():
                return " ".join(member.error.name if member.error else "ok" for member in answer.members)
            case OffsetCommitResult():
                return " ".join(error.name if error else "ok" for error in answer.errors)
            case OffsetFetchResult():
                offsets = [
                    f"{topic}-{each.partition}={each.offset}"
                    for topic, partitions in answer.topics
                    for each in partitions
                ]
                return " ".join(offsets) or "nothing"
            case DescribeGroupsResult():
                (group,) = answer.groups
                return "".join(
                    [str(len(group.rebalances)), *(f"\n    {in_words(each)}" for each in group.rebalances)]
                )
        raise AssertionError(answer)


def describe(record: GroupRecord) -> str:
    if record.value is None:
        return f"removal of {'an offset' if isinstance(record, OffsetRecord) else 'the group'}"
    if isinstance(record, OffsetRecord):
        return f"offset {record.topic}-{record.partition}={record.value.offset}"
    members = ",".join(member.member_id for member in record.value.members) or "no members"
    return f"group generation={record.value.generation} {record.value.protocol or 'no protocol'} {members}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
