"""ottla.node.client_metrics: metrics that clients push (KIP-714). Bottom-up:

otlp_reader       OpenTelemetry's MetricsData as it is sent, read within bounds
subscriptions     which of their metrics clients are to push, and how often
pushed_series     what clients pushed last, as series with labels, within bounds
client_instances  the clients: when each may ask and push, and what it last pushed
"""
