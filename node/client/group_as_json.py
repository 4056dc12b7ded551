"""The rebalances and resets of groups as JSON objects, for the command line and the REST API."""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.node.client.group_admin import GroupView, RebalanceView
from ottla.node.client.group_offsets import Change


def timeline_as_json(view: GroupView) -> list[dict[str, Any]] | None:
    if view.rebalances is None:
        return None
    return [
        {
            "began_ms": one.began_ms,
            "duration_ms": duration_ms(one),
            "generation_before": one.generation_before,
            "generation_after": one.generation_after,
            "members": one.members,
            "events": [
                {
                    "cause": event.cause,
                    "at_ms": event.at_ms,
                    "member": event.member_id or None,
                    "client": event.client_id or None,
                    "reason": event.reason or None,
                }
                for event in one.events
            ],
            "events_left_out": one.events_left_out,
        }
        for one in view.rebalances
    ]


def duration_ms(rebalance: RebalanceView) -> int | None:
    """Return the time in which the members could not work; None while the rebalance runs."""
    return None if rebalance.ended_ms is None else max(rebalance.ended_ms - rebalance.began_ms, 0)


def changes_as_json(plans: Mapping[str, Sequence[Change]]) -> list[dict[str, Any]]:
    return [
        {
            "group": group_id,
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "offset": one.before,
            "new_offset": one.after,
            "warning": one.warning,
        }
        for group_id, changes in plans.items()
        for one in changes
    ]
