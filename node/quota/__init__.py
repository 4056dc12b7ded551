"""ottla.node.quota: the quotas of clients, measured as Apache Kafka measures them. Bottom-up:

rate              a rate over sliding windows, and the throttle time of a client beyond its quota
token_bucket      tokens that come back at the rate of a quota
quota_entities    finds the quota of a client, and the clients that share it
quota_buckets     keeps the measurements of clients with a quota, in bounded memory
request_meter     measures the CPU time of a request on the loop and in threads
throttle_times    the average throttle time of clients
client_quotas     measures bytes, time and mutations of clients against the quotas of the cluster
connection_rates  limits the rate of new connections, by node, listener and address
"""
