// Groups: who is in them, how far they are, why they rebalanced.

import { get, path, post, query, remove } from "../api.js";

/** All of them; `members`, `lag` and `lag_ms` are null but for the first so many that have `search` in their ids. */
export async function groups(search, detailed, signal) {
  return (await get("/v1/groups" + query({ search, detailed }), signal)).groups;
}

/** The group, its members with their partitions, and its lags. */
export const group = (id, signal) => get(path`/v1/groups/${id}`, signal);
export const timeline = (id, signal) => get(path`/v1/groups/${id}/timeline`, signal);
export const resetOffsets = (id, wish) => post(path`/v1/groups/${id}/reset`, wish);
export const deleteGroup = (id) => remove(path`/v1/groups/${id}`);
