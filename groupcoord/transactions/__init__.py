"""ottla.groupcoord.transactions: the transaction coordinator of Kafka, as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own, and of groupcoord nothing but
coordinator_effects, request_token, topic_regex and log_scan:

transaction_config  the settings that a coordinator obeys, and its limits
transaction_state   eight states and the table of their moves
transaction         the durable state of an id, and its moves
transaction_records  encodes and decodes the records of __transaction_state
id_pattern          regular expressions over ids
transaction_commands  the commands of a shard
transaction_results  the results of commands
transaction_effects  the effects of a shard
transaction_shard   the ids of one partition; replay
transaction_scan    scans the log for the last state of each id, and fills a shard
transaction_lookup  the first checks of every request
waiting_requests    requests that wait for the markers of the previous transaction
marker_progress     from the decision over a transaction to its last marker
coordinator_abort   the coordinator's own aborts: of replaced producers, and of timed-out transactions
init_producer       InitProducerId
add_partitions      AddPartitionsToTxn, AddOffsetsToTxn, and the leaders' verification
end_transaction     EndTxn of clients of both protocols
id_expiry           removes ids that are no longer used
describe_transactions  ListTransactions, DescribeTransactions
transaction_coordinator  dispatch, start, stop
"""
