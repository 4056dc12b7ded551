"""node.replica: the partitions that this node has. Bottom-up:

`isr` (what followers have: high watermark, who is in sync), `delayed_operation`, `delayed_produce`,
`delayed_delete` and `delayed_fetch` (requests at rest until a partition changes), `fetch_session` (KIP-227),
`replica_context` (what partitions ask of the node), `refused_batches` (what came too early), `partition`
(role, epoch, append, read), `read_replica` (KIP-392), `replication_quota` (KIP-73), `follower_session` (a
leader's side of followers' fetches), `replica_manager` (all partitions; what the metadata say becomes roles
and logs), `follower_state` (a follower's side, pure), `follower_fetcher` (the task that copies from one
leader), `isr_updates` (what the controller is asked for), `replication` (all of the last three).
"""
