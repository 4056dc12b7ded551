"""ottla.node.log_care: background work on the logs. Bottom-up:

damaged_replicas  keeps replicas with damaged logs out of the ISR
log_flusher       flushes logs to disk, in threads
segment_repair    restores the batches of damaged segments from another replica
log_scrub         reads the logs of a node for damage, and has it repaired
log_maintenance   the periodic tasks: retention, flushes, checkpoints, cleaning, moves
"""
