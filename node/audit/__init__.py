"""ottla.node.audit: who was refused, who failed to log in, and who changed the cluster. Bottom-up:

audit_event   the events of the audit log
alike_events  gathers alike events into few lines, whatever a hostile client does
audit_line    the lines as a text of the logger, and as an object of the file
audit_file    the file, with the older ones that it leaves behind
audit_log     takes the events of a node from any thread, and writes them in a thread of its own
"""
