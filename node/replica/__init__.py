"""ottla.node.replica: the partitions that this node hosts, as leader or follower. Bottom-up:

backlog            a queue of partitions with pending work, in turns by topic
delayed_fetch      a fetch that waits for more bytes until an append or a timer wakes it
delayed_operation  a request that waits until each of its partitions has reached a goal
fetch_session      incremental fetch sessions (KIP-227)
isr                a leader's knowledge of its followers, and the ISR and high watermark that follow from it
refused_batches    batches of idempotent producers that a replica rejected before it became leader
delayed_delete     a DeleteRecords that waits until all live replicas have deleted, or its time is over
delayed_produce    a produce that waits until its records are replicated or flushed, or its time is over
replica_context    the functions of the node that its partitions use
partition          one replica of a partition on this node
follower_session   the leader's side of a follower's incremental fetch session (KIP-227)
follower_state     decides a follower's next fetch, and the step that follows each answer
isr_updates        requests changes of ISRs from the controller
read_replica       chooses the replica that a consumer should read from
replication_quota  the rate of throttled replication
follower_fetcher   copies the partitions that this node follows from one leader
replica_manager    all partitions of this node, and the requests that wait for changes of them
replication        keeps replicas in sync with their leaders, and the ISRs that this node leads up to date
"""
