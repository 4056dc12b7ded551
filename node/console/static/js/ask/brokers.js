// Brokers: which there are, what they hold, how one is taken out of work.

import { get, path, post, query, remove } from "../api.js";

/** The broker's directories, or the error for which it does not tell them. */
export async function logDirs(id, signal) {
  const { brokers } = await get("/v1/log-dirs" + query({ broker_id: id }), signal);
  if (brokers[0].error) throw new Error(brokers[0].error.message);
  return brokers[0].log_dirs;
}

/** {leads, preferred_for, is_drained, can_end}. */
export const drainOf = (id, signal) => get(path`/v1/brokers/${id}/drain`, signal);
export const drain = (id) => post(path`/v1/brokers/${id}/drain`);
export const undrain = (id) => remove(path`/v1/brokers/${id}/drain`);
/** What would move; nothing is done. */
export const planDecommission = (id) => post(path`/v1/brokers/${id}/decommission`, { dry_run: true });
/** The next step: its replicas move away, or, once it is empty and stopped, it is forgotten. */
export const decommission = (id) => post(path`/v1/brokers/${id}/decommission`);
