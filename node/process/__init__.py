"""ottla.node.process: the process of one node. Bottom-up:

stop_signals  receives the signals that stop a process, with their senders
garbage       keeps collections of Python's garbage collector short, by freezing the objects that survive
open_files    raises the limit of open files
run_node      runs one node until a signal stops it
"""
