// The plan that gives all brokers equal shares, its execution and its cancellation.

import { get, post, query, remove } from "../api.js";

const LIMIT_MS = 15_000; // every broker reports the sizes of all of its replicas

/**
 * {enabled, requested, max_bytes_per_second, copied_bytes, least_ms, move_count, moves, moving, brokers}: `brokers`
 * have their shares before and after the moves, `moving` are the partitions that are being moved now. With `measure`,
 * the node measures for some seconds how fast partitions grow; without it, bytes in are unknown.
 */
export const balance = (measure, signal) => get("/v1/balance" + query({ measure, timeout_ms: LIMIT_MS }), signal);
export const beginBalance = () => post("/v1/balance");
/** Cancel the balance, and return the partitions whose moves were reverted. */
export const cancelBalance = async () => (await remove("/v1/balance")).cancelled;
