// The charts: title, format of values, base 1024 for sizes, and the lines with their names.

import { UNKNOWN, bytes, count, digits, duration } from "./format.js";

export const perSecond = (show) => (value) => ((value ?? null) === null ? UNKNOWN : `${show(value)}/s`);

const TRAFFIC = {
  title: "Client traffic",
  show: perSecond(bytes),
  base: 1024,
  lines: { in: "bytes_in_per_second", out: "bytes_out_per_second" },
};
const RECORDS = {
  title: "Records produced",
  show: perSecond(digits),
  base: 1000,
  lines: { in: "messages_in_per_second" },
};
const SIZE = { title: "Size of logs", show: bytes, base: 1024, lines: { size: "size_bytes" } };

export const FLOW_CHARTS = [
  TRAFFIC,
  RECORDS,
  {
    title: "Replication traffic",
    show: perSecond(bytes),
    base: 1024,
    lines: { in: "replication_bytes_in_per_second", out: "replication_bytes_out_per_second" },
  },
  {
    title: "Requests",
    show: perSecond(digits),
    base: 1000,
    lines: { Produce: "produce_requests_per_second", Fetch: "fetch_requests_per_second" },
  },
  {
    title: "Produce latency",
    show: duration,
    base: 1000,
    lines: { p50: "produce_p50_ms", p99: "produce_p99_ms" },
  },
  {
    title: "Fetch latency, including the wait for records",
    show: duration,
    base: 1000,
    lines: { p50: "fetch_p50_ms", p99: "fetch_p99_ms" },
  },
];
export const BROKER_CHARTS = [...FLOW_CHARTS, SIZE];
export const TOPIC_CHARTS = [TRAFFIC, RECORDS, { ...SIZE, title: "Size on leaders" }];
export const GROUP_CHARTS = [{ title: "Lag in records", show: count, base: 1000, lines: { lag: "lag" } }];
