"""ottla.groupcoord.classic: groups of the classic protocol, whose members meet to rebalance.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

group_state         five states and the table of their moves
heartbeat_interval  a member's heartbeat interval, as learned from its heartbeats
member_commands     JoinGroup, SyncGroup, Heartbeat, LeaveGroup
member_results      the results of these commands
consumer_protocol   the subscriptions and assignments that consumers of a classic group exchange

State:

classic_member      a member of a classic group
classic_group       a classic group, and the changes that keep its parts in step
classic_group_record  makes the record of a classic group, and loads a group from its record

Decisions:

rebalance           from the first join of a generation to the last sync
join_group          JoinGroup: new, returning and static members
sync_group          SyncGroup: the leader brings the assignments, members get them
heartbeat           Heartbeat
leave_group         LeaveGroup, in batches
"""
