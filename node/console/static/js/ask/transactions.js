// Transactions: their list, their details, and aborting them.

import { get, path, post, query } from "../api.js";

const SEARCH_LIMIT_MS = 15_000; // every leader searches its logs

export const transactions = async (signal) => (await get("/v1/transactions", signal)).transactions;
export const transaction = (id, signal) => get(path`/v1/transactions/${id}`, signal);
export const abortTransaction = (id) => post("/v1/transactions/abort", { transactional_id: id });

/** Return transactions that are open in logs, idle for at least this long, and unknown to any coordinator. */
export async function hanging(longerThanMs, signal) {
  return (await get("/v1/transactions/hanging" + query({ longer_than_ms: longerThanMs, timeout_ms: SEARCH_LIMIT_MS }), signal)).hanging;
}

export const abortInLog = (topic, partition, startOffset) =>
  post("/v1/transactions/abort", { topic, partition, start_offset: startOffset });
