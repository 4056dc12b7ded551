"""ottla.node.client_metrics: metrics that clients push (KIP-714). Bottom-up:

otlp_reader       reads OpenTelemetry's MetricsData within limits
subscriptions     the subscriptions, which choose the metrics that clients push, and the interval
pushed_series     the metrics that a client pushed last, as series with labels, within limits
client_instances  the clients: when each may request its subscription and push, and its series
"""
