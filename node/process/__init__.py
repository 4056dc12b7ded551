"""ottla.node.process: the process of one node. Bottom-up:

stop_signals  the signals that ask a process to end, and who sent them
garbage       the collector of garbage looks at new objects, and never at all of them at once
open_files    how many files the process may open
run_node      runs one node until a signal ends it
"""
