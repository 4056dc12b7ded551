// Brokers: their list, their log directories, draining and decommissioning.

import { get, path, post, query, remove } from "../api.js";

/** Return the broker's directories, or the error that it answered with. */
export async function logDirs(id, signal) {
  const { brokers } = await get("/v1/log-dirs" + query({ broker_id: id }), signal);
  if (brokers[0].error) throw new Error(brokers[0].error.message);
  return brokers[0].log_dirs;
}

/** {leads, preferred_for, is_drained, can_end}. */
export const drainOf = (id, signal) => get(path`/v1/brokers/${id}/drain`, signal);
export const drain = (id) => post(path`/v1/brokers/${id}/drain`);
export const undrain = (id) => remove(path`/v1/brokers/${id}/drain`);
/** Return the moves of a decommission without starting it. */
export const planDecommission = (id) => post(path`/v1/brokers/${id}/decommission`, { dry_run: true });
/** Take the next step: move its replicas away, or, once it is empty and stopped, remove it from the cluster. */
export const decommission = (id) => post(path`/v1/brokers/${id}/decommission`);
