"""logstore: the log of one partition, the logs of one disk, and the words that all packages share.

The map, bottom-up; a module imports only from lines above its own:

words               what all packages say: errors, names, the notations of messages and settings; its own map
config_documentation  what each topic setting is for
log_config          the topic settings a log obeys, and the broker settings behind them
compression         the five compressions, opened with a bound on what comes out
opener              compressed batches of the usual size, opened into memory that is used again
record_batch        the 61-byte header: read, check, patch
pure_record_walk    walks over opened records, a look at the header, in Python; the judge of the compiled ones
record_walk         the walks, compiled where there was a compiler; what is checked where there was none
opened_records      the opened records of a batch, a piece at a time
record              records inside a batch: build, iterate; transaction markers
delivery_delay      when the records of a batch are due, for topics that delay their delivery
open_batch          a batch that is being written, record by record or many alike at once
oldest_record       the first record at or after an offset, and how old it is
page_cache          whether a part of a file is in memory
dirty_pages         what waits in memory to be written
file_space          blocks of a file beyond its end
file_identity       by what a file is told from its copy
disk                the door to files, the operating system's or one in memory
checkpoint          small text files: offsets of partitions, epochs, topic ids
batch_validator     what a leader checks before it appends a batch
offset_index        offset -> position, every few kilobytes
time_index          timestamp -> offset
transaction_index   the aborted transactions of a segment
leader_epoch_cache  leader epoch -> start offset; where a follower must cut
producer_tally      how many producers all logs of a node remember, and how many they may
producer_state      producer id -> epoch, last batches, open transaction; its snapshot format
verification        whether the first batch of a transaction may be appended (KIP-890)
segment             one .log file with its indexes
duplicate_window    the last batches of a producer, found again in the log
producer_snapshots  the .snapshot files of a log
recovery            opening a directory: leftovers, lost indexes, torn tails
roll                when a log begins a new segment
log_segments        the segments of a log as a row of files: begun, cut, replaced, dropped
log_reader          where a read begins and ends; offsets by time
flush_target        what to fsync before the recovery point moves
partition_log       one ordered log: append, read, look up, cut at both ends
log_check           reading a log whole to find what is damaged; indexes built anew
segment_copy        the batches of a damaged segment again, checked and put in its place
meta_properties     which cluster and node a log directory belongs to
retention           which segments of a log go, and when it is flushed
offset_map          the cleaner's key map: last offset of each key in bounded memory
compaction          which records of a compacted log stay, batch by batch
cleaning_plan       which part of a log is cleaned, and which segments become one
volume              what only the operating system can say of a directory: its lock, its free space
log_dir             one log directory: names, markers, checkpoints
log_loading         finding and opening the logs of a directory at start
log_checkpoints     which offset checkpoints have changed, and writing them
removals            files and directories that wait to be removed
log_manager         all logs of a node over its log directories
log_mover           copying a log to another log directory, step by step
cleaner             the pass over the segments of a compacted log; blocks, runs in a thread
cleaning_costs      which topics took much of the cleaners' time, and go after the others
cleaner_manager     which log is cleaned next, and what becomes of it
"""
