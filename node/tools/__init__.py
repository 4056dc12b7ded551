"""ottla.node.tools: tools that print log files, protocol frames and the state of internal logs. Bottom-up:

closed_pipe       handles an output that cannot be written any more
internal_records  decodes records of Kafka's internal topics into text
replayed_log      replays an internal log into its state
dump_wire         dump-wire: prints frames of the Kafka protocol
log_files         reads each kind of file in a log directory into rows
dump_log          dump-log: prints the files of a log
dump_state        dump-metadata, dump-group and replay: print or check the state of an internal log
"""
