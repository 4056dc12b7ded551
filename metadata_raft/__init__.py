"""metadata_raft: the cluster's metadata, decided by commands, kept as records, behind a quorum.

The map, bottom-up; a module imports only from lines above its own:
"""
