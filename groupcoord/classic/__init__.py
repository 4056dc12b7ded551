"""ottla.groupcoord.classic: groups of the classic protocol, whose members meet to rebalance.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

group_state         five states and the table of their moves
heartbeat_interval  how often a member heartbeats, as learned from its heartbeats
member_commands     JoinGroup, SyncGroup, Heartbeat, LeaveGroup
member_results      what members are answered
consumer_protocol   what consumers of a classic group say to each other

State:

classic_member      a member of a classic group
classic_group       a classic group, and the changes that keep its parts in step
classic_group_record  a classic group as its record, both ways

Decisions:

rebalance           from the first join of a generation to the last sync
join_group          JoinGroup: new, returning and static members
sync_group          SyncGroup: assignments in, assignments out
heartbeat           Heartbeat
leave_group         LeaveGroup, in batches
"""
