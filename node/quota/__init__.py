"""ottla.node.quota: how much clients may ask of a node, measured as Apache Kafka measures it. Bottom-up:

rate              a rate over sliding windows, and how long who goes beyond a quota must wait
token_bucket      tokens that come back at the rate of a quota
quota_entities    which quota is for a client, and with whom it is shared
quota_buckets     what is measured for each of those who have a quota, in bounded memory
request_meter     the time that one request takes on the loop and in threads
throttle_times    how long clients were throttled of late
client_quotas     bytes, time and mutations of clients against the quotas of the cluster
connection_rates  how fast connections come, by node, listener and address
"""
