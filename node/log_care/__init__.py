"""ottla.node.log_care: the care of the logs that no request asks for. Bottom-up:

damaged_replicas  replicas of this node whose logs are damaged
log_flusher       forces logs to disk, in threads
segment_repair    brings the batches of damaged segments back from another replica
log_scrub         looks for damage in the logs of a node, and has it repaired
log_maintenance   the work on the logs that no request asks for
"""
