"""ottla.node.tools: reading tools: log, wire, the state that internal logs stand for. Bottom-up:

closed_pipe       what a command does when its output cannot be written any more
internal_records  the records of Kafka's internal topics in words
replayed_log      the state that an internal log stands for
dump_wire         dump-wire
log_files         the files of a log in words
dump_log          dump-log
dump_state        dump-metadata, dump-group and replay
"""
