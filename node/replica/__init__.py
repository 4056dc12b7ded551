"""ottla.node.replica: the partitions that this node has, as leader or follower. Bottom-up:

backlog            partitions for which something is still to be done here
delayed_fetch      a fetch that found too few bytes, at rest until an append (or a timer) wakes it
delayed_operation  a request at rest until each of its partitions has come to what it waits for
fetch_session      incremental fetch sessions (KIP-227)
isr                what a leader knows of its followers, and the ISR that follows from it
refused_batches    batches of idempotent producers that a replica refused as it did not lead yet
delayed_delete     a DeleteRecords, at rest until all living replicas have deleted too (or its time is over)
delayed_produce    a produce at rest until its records are as safe as it asks for (or its time is over)
replica_context    what the partitions of a node ask of the node
partition          one partition as this node has it
follower_session   the leader's side of a follower's incremental fetch session (KIP-227)
follower_state     a follower's partitions
isr_updates        has the controller change ISRs
read_replica       from which replica a consumer had best read
replication_quota  how fast throttled replication may be
follower_fetcher   copies from one leader what this node follows of it
replica_manager    all partitions of this node, and the requests that wait for one of them to change
replication        keeps this node's replicas alike with their leaders', and the ISRs that it leads true
"""
