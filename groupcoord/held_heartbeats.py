"""Heartbeats that wait for news: members hear of a rebalance when it begins, not at their next heartbeat.

A member that is where it should be gets no answer until there is something to tell it, until shortly before
its next heartbeat would be due, until it sends something else on the connection, or until the coordinator
stops. Then its heartbeat is decided as if it had just come, except that it does not prolong its session. All
of this is soft state.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.effects import Effect, Follow, Refuse, StartTimer, TimerKey
from ottla.groupcoord.hold_phase import HoldPhase
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.timer_commands import EndHold
from ottla.logstore.errors import ErrorCode

HeldCommand: TypeAlias = Heartbeat | ConsumerGroupHeartbeat


class HeldHeartbeats:
    """Those of one shard: at most one for each member of a group."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, HeldCommand]] = {}
        # Of those, the ones whose members wait for partitions of others.
        self._short: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_group)

    def groups(self) -> list[str]:
        return list(self._by_group)

    def of_group(self, group_id: str) -> list[HeldCommand]:
        held = self._by_group.get(group_id)
        return [] if held is None else list(held.values())

    def concerned(self, group_id: str, changed: Iterable[str]) -> list[HeldCommand]:
        """Those of these members, and of all that wait for partitions, since somebody gave up some."""
        held = self._by_group.get(group_id)
        if held is None:
            return []
        members = dict.fromkeys([*changed, *self._short.get(group_id, ())])
        return [held[member_id] for member_id in members if member_id in held]

    def hold(self, command: HeldCommand, wait_ms: int, *, is_short: bool = False) -> list[Effect]:
        """Let it wait, at most so long; one that was resumed goes on waiting as long as it would have."""
        self._by_group.setdefault(command.group_id, {})[command.member_id] = command
        if is_short:
            self._short.setdefault(command.group_id, {})[command.member_id] = None
        if command.phase is HoldPhase.RESUMED:
            return []
        key = TimerKey("hold", command.group_id, command.member_id)
        end = EndHold(group_id=command.group_id, member_id=command.member_id, held=command.token)
        return [StartTimer(key, wait_ms, end)]

    def end(self, group_id: str, member_id: str, token: Token | None = None) -> list[Effect]:
        """Answer the member's heartbeat, if it waits, and bears that token where one is given."""
        command = self._by_group.get(group_id, {}).get(member_id)
        if command is None or token not in (None, command.token):
            return []
        return self._decided_again([command], HoldPhase.OVER)

    def resume(self, commands: Iterable[HeldCommand]) -> list[Effect]:
        """There may be news for these: decide them again; what finds none waits on."""
        return self._decided_again(commands, HoldPhase.RESUMED)

    def stop(self, error: ErrorCode) -> list[Effect]:
        held, self._by_group, self._short = self._by_group, {}, {}
        return [Refuse(command.token, error) for of_group in held.values() for command in of_group.values()]

    def _decided_again(self, commands: Iterable[HeldCommand], phase: HoldPhase) -> list[Effect]:
        effects: list[Effect] = []
        for command in commands:
            self._forget(self._by_group, command)
            self._forget(self._short, command)
            effects.append(Follow(replace(command, phase=phase)))
        return effects

    @staticmethod
    def _forget(groups: dict[str, dict[str, Any]], command: HeldCommand) -> None:
        of_group = groups.get(command.group_id)
        if of_group is None or command.member_id not in of_group:
            return
        del of_group[command.member_id]
        if not of_group:
            del groups[command.group_id]
