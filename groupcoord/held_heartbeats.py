"""Held heartbeats: a member learns of a rebalance when it begins, not at its next heartbeat.

A heartbeat is a long poll where `ottla.group.heartbeat.hold.ms` allows it: a member that has nothing to do
gets no answer until it has something to learn, until shortly before its next heartbeat is due, until it sends
another request on the connection, or until the coordinator stops. Then the heartbeat is decided as if it had
just arrived, except that it does not prolong the member's session. All of this is soft state.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.effects import ContinueWith, Effect, Refuse, StartTimer, TimerKey
from ottla.groupcoord.heartbeat_phase import HeartbeatPhase
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.timer_commands import AnswerHeldHeartbeat
from ottla.logstore.words.errors import ErrorCode

HeldCommand: TypeAlias = Heartbeat | ConsumerGroupHeartbeat


class HeldHeartbeats:
    """The held heartbeats of one shard: at most one for each member of a group."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, HeldCommand]] = {}
        # Heartbeats of members that wait for partitions that others have not given up yet.
        self._awaiting_partitions: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_group)

    def groups(self) -> list[str]:
        return list(self._by_group)

    def heartbeats_of_group(self, group_id: str) -> list[HeldCommand]:
        held = self._by_group.get(group_id)
        return [] if held is None else list(held.values())

    def affected_by(self, group_id: str, changed: Iterable[str]) -> list[HeldCommand]:
        """Return the heartbeats of changed members, and of members whose missing partitions may be free."""
        held = self._by_group.get(group_id)
        if held is None:
            return []
        members = dict.fromkeys([*changed, *self._awaiting_partitions.get(group_id, ())])
        return [held[member_id] for member_id in members if member_id in held]

    def hold(self, command: HeldCommand, wait_ms: int, *, awaits_partitions: bool = False) -> list[Effect]:
        """Hold a heartbeat for at most `wait_ms`; a woken one stays held until its first time is over."""
        self._by_group.setdefault(command.group_id, {})[command.member_id] = command
        if awaits_partitions:
            self._awaiting_partitions.setdefault(command.group_id, {})[command.member_id] = None
        if command.phase is HeartbeatPhase.WOKEN:
            return []
        key = TimerKey("hold", command.group_id, command.member_id)
        due = AnswerHeldHeartbeat(group_id=command.group_id, member_id=command.member_id, held=command.token)
        return [StartTimer(key, wait_ms, due)]

    def answer(self, group_id: str, member_id: str, token: Token | None = None) -> list[Effect]:
        """Answer the member's heartbeat if one is held, and if its token is the given one (None: any)."""
        command = self._by_group.get(group_id, {}).get(member_id)
        if command is None or token not in (None, command.token):
            return []
        return self._decide_again([command], HeartbeatPhase.DUE)

    def wake(self, commands: Iterable[HeldCommand]) -> list[Effect]:
        """Decide these heartbeats again. Those whose members have nothing to learn stay held."""
        return self._decide_again(commands, HeartbeatPhase.WOKEN)

    def refuse_all(self, error: ErrorCode) -> list[Effect]:
        held, self._by_group, self._awaiting_partitions = self._by_group, {}, {}
        return [Refuse(command.token, error) for of_group in held.values() for command in of_group.values()]

    def _decide_again(self, commands: Iterable[HeldCommand], phase: HeartbeatPhase) -> list[Effect]:
        effects: list[Effect] = []
        for command in commands:
            self._forget(self._by_group, command)
            self._forget(self._awaiting_partitions, command)
            effects.append(ContinueWith(replace(command, phase=phase)))
        return effects

    @staticmethod
    def _forget(groups: dict[str, dict[str, Any]], command: HeldCommand) -> None:
        of_group = groups.get(command.group_id)
        if of_group is None or command.member_id not in of_group:
            return
        del of_group[command.member_id]
        if not of_group:
            del groups[command.group_id]
