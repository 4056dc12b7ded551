"""ottla.groupcoord.transactions: the transaction coordinator of Kafka, as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own, and of groupcoord nothing but
coordinator_effects, request_token, topic_regex and log_scan:

transaction_config  the settings that a coordinator obeys, and its limits
transaction_state   eight states and the table of their moves
transaction         the durable state of an id, and its moves
transaction_records  an id in __transaction_state, both ways
id_pattern          expressions over ids
transaction_commands  what a shard can be asked
transaction_results  what is answered
transaction_effects  what a shard asks of the world
transaction_shard   the ids of one partition; replay
transaction_scan    bytes of the log, scanned to the last state of each id; a shard made of it
transaction_lookup  what every request is asked first
waiting_requests    requests that wait for the markers of the transaction before
marker_progress     from the decision over a transaction to its last marker
coordinator_abort   the coordinator's own aborts: of a predecessor, and when time is over
init_producer       InitProducerId
add_partitions      AddPartitionsToTxn, AddOffsetsToTxn, and the leaders' question
end_transaction     EndTxn of clients of both protocols
id_expiry           ids that nobody uses any more
describe_transactions  ListTransactions, DescribeTransactions
transaction_coordinator  dispatch, start, stop
"""
