"""ottla.groupcoord.offsets: the committed offsets of groups, in transactions and outside of them.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

offset_commands     the commands over committed offsets
offset_results      the results of these commands
offset_values       packs and reads the bytes of a committed offset

State:

offset_bytes        the bytes of committed offsets, and their limit
offset_store        the committed offsets of a shard
pending_offsets     offsets of open transactions, and which of them counts in the end
offset_log_scan     scans the batches of a log for the last record of each key

Decisions:

offset_commit       OffsetCommit, TxnOffsetCommit
offset_fetch        OffsetFetch
offset_delete       OffsetDelete, and offsets of topics that are gone
offset_expiry       expiry of offsets and groups; DeleteGroups
"""
