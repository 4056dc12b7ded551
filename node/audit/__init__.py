"""ottla.node.audit: the audit log: rejected requests, failed logins, changes of the cluster. Bottom-up:

audit_event   the events of the audit log
repeated_events  merges equal events into few lines, however many a hostile client causes
audit_line    formats lines as text for the logger and as JSON for the file
audit_file    the file, and its rotation
audit_log     accepts events from any thread and writes them in a thread of its own
"""
