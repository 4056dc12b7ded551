"""node.replica: the partitions that this node has. Bottom-up:

`high_watermark` (what the positions of replicas allow), `delayed_produce` and `delayed_fetch` (requests at
rest until a partition changes), `fetch_session` (KIP-227), `partition` (role, epoch, append, read),
`replica_manager` (all partitions; what the metadata say becomes roles and logs).
"""
