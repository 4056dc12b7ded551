// Groups: who is in them, how far they are, why they rebalanced.

import { get, path, post, query, remove } from "../api.js";

export const SHARE = "share"; // the type of groups whose members share the records of a partition

/** All of them; `members`, `lag` and `lag_ms` are null but for the first so many that have `search` in their ids. */
export async function groups(search, detailed, signal) {
  return (await get("/v1/groups" + query({ search, detailed }), signal)).groups;
}

/** Whether the group is a share group; false, too, where it cannot be told. */
export async function isShareGroup(id, signal) {
  const { groups: found } = await get("/v1/groups" + query({ type: SHARE, detailed: 0 }), signal);
  return found.some((one) => one.group_id === id);
}

/** The group, its members with their partitions, and its lags. */
export const group = (id, signal) => get(path`/v1/groups/${id}`, signal);
export const timeline = (id, signal) => get(path`/v1/groups/${id}/timeline`, signal);
export const resetOffsets = (id, wish) => post(path`/v1/groups/${id}/reset`, wish);
/** Have the group forget where it is in a topic. */
export const deleteOffsets = (id, topic) => remove(path`/v1/groups/${id}/topics/${topic}`);
export const deleteGroup = (id) => remove(path`/v1/groups/${id}`);
