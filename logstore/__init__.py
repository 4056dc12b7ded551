"""logstore: the log of a partition, the logs of a node's disks, and the vocabulary that all packages share.

The map, bottom-up; a module imports only from lines above its own:

words               the vocabulary of all packages: errors, names, notations; its own map
config_documentation  the documentation of each topic setting
log_config          the topic settings of a log, and the broker settings that give their defaults
compression         compresses and decompresses records, with a bound on the size of the result
opener              decompresses batches of the usual size into memory that is reused
record_batch        reads, checks and patches the 61-byte header of a batch
pure_record_walk    walks over decompressed records in Python; the reference of the compiled functions
record_walk         the compiled walks, or those in Python if there was no compiler
opened_records      decompresses the records of a batch a piece at a time
record              builds and parses records and batches; transaction markers
delivery_delay      finds the records of a batch that are not due yet, for topics that delay their delivery
open_batch          builds a batch record by record, or from many similar records at once
oldest_record       finds the first record at or after an offset, and its age
page_cache          looks up a range of a file in the page cache
dirty_pages         the amount of dirty pages, by which large writers are paused
file_space          allocates blocks beyond the end of a file
file_identity       the identity of a file, which its copies do not have
disk                the door to files: the operating system's, and a disk in memory for tests
checkpoint          small text files: offsets of partitions, leader epochs, topic ids
batch_validator     the checks of a leader before it appends a batch
offset_index        offset -> position, every few kilobytes
time_index          timestamp -> offset
transaction_index   the aborted transactions of a segment
leader_epoch_cache  leader epoch -> start offset, by which a follower truncates
producer_tally      the number of producers in the state of all logs of a node, and its limit
producer_state      producer id -> epoch, last batches, open transaction; its snapshot format
verification        the guards for the first batch of a transaction (KIP-890)
segment             a .log file with its indexes
duplicate_window    searches the log for the last batches of a producer
producer_snapshots  the .snapshot files of a log
recovery            opens a log's directory: leftovers of a crash, lost indexes, torn tails
roll                decides when a log begins a new segment
log_segments        the segments of a log as a row of files, created, truncated, replaced, dropped
log_reader          finds the range of a read, and offsets by time
flush_target        the files to fsync before the recovery point moves
partition_log       the log of a partition: append, read, look up, truncate at both ends
log_check           reads a whole log to find damage; rebuilds indexes
segment_copy        replaces a damaged segment by a copy from another replica
meta_properties     the cluster and node that own a log directory
retention           decides which segments of a log are deleted, and when it is flushed
offset_map          the cleaner's key map: the last offset of each key in bounded memory
compaction          decides which records of a compacted log are kept, batch by batch
cleaning_plan       decides which part of a log is cleaned, and which segments are merged
volume              the lock of a log directory, and its free space
log_dir             a log directory: names, markers, checkpoints
log_loading         finds and opens the logs of a directory at start
log_checkpoints     writes the offset checkpoints that have changed
removals            removes files and directories after a delay
log_manager         the logs of a node in all its log directories
log_mover           copies a log to another log directory, step by step
cleaner             the passes over the segments of a compacted log; blocks, runs in a thread
cleaning_costs      the recent costs of cleaning each topic, for their order
cleaner_manager     chooses the log to clean next, and applies the result
"""
