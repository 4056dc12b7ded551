"""groupcoord.transactions: the transaction coordinator of Kafka, as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own, and of groupcoord nothing but
request_token and topic_regex:

transaction_config  the settings that a coordinator obeys, and its limits
transaction_state   eight states and the table of their moves
transaction         the durable state of an id, and its moves
transaction_records  an id in __transaction_state, both ways
"""
