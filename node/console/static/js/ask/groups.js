// Groups: their members, offsets and rebalances.

import { get, path, post, query, remove } from "../api.js";

export const SHARE = "share"; // the type of groups whose members share the records of a partition

/**
 * Return all groups; `members`, `lag` and `lag_ms` are null except for the first `detailed` whose ids contain `search`.
 */
export async function groups(search, detailed, signal) {
  return (await get("/v1/groups" + query({ search, detailed }), signal)).groups;
}

/** Return true for a share group; false also if its type is unknown. */
export async function isShareGroup(id, signal) {
  const { groups: found } = await get("/v1/groups" + query({ type: SHARE, detailed: 0 }), signal);
  return found.some((one) => one.group_id === id);
}

/** Return the group, its members with their partitions, and its lags. */
export const group = (id, signal) => get(path`/v1/groups/${id}`, signal);
export const timeline = (id, signal) => get(path`/v1/groups/${id}/timeline`, signal);
export const resetOffsets = (id, request) => post(path`/v1/groups/${id}/reset`, request);
/** Delete the group's offsets in a topic. */
export const deleteOffsets = (id, topic) => remove(path`/v1/groups/${id}/topics/${topic}`);
export const deleteGroup = (id) => remove(path`/v1/groups/${id}`);
