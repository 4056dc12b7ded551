// The plan that gives all brokers their share, its beginning and its end.

import { get, post, query, remove } from "../api.js";

const LIMIT_MS = 15_000; // every broker tells the sizes of all of its replicas

/**
 * {enabled, requested, max_bytes_per_second, copied_bytes, least_ms, move_count, moves, moving, brokers}: `brokers` have
 * their share before and after the moves, `moving` are the partitions that move now. To `measure` how fast partitions
 * grow takes some seconds; without it nothing is known of bytes in.
 */
export const balance = (measure, signal) => get("/v1/balance" + query({ measure, timeout_ms: LIMIT_MS }), signal);
export const beginBalance = () => post("/v1/balance");
/** The partitions whose moves were taken back. */
export const cancelBalance = async () => (await remove("/v1/balance")).cancelled;
