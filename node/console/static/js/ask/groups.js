// Groups: who is in them, how far they are, why they rebalanced.

import { get, path, post, remove } from "../api.js";
import { cluster } from "./cluster.js";

export async function groups(signal) {
  const { data } = await get(`${await cluster(signal)}/consumer-groups`, signal);
  return data.map((one) => ({
    id: one.consumer_group_id,
    state: one.state,
    type: one.type,
    assignor: one.partition_assignor,
  }));
}

/** The group, its members with their partitions, and its lags. */
export const group = (id, signal) => get(path`/v1/groups/${id}`, signal);
export const timeline = (id, signal) => get(path`/v1/groups/${id}/timeline`, signal);
export const resetOffsets = (id, wish) => post(path`/v1/groups/${id}/reset`, wish);
export const deleteGroup = (id) => remove(path`/v1/groups/${id}`);
