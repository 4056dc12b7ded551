// Throttles for the copying of replicas.

import { get, put, remove } from "../api.js";

export const throttles = (signal) => get("/v1/throttles", signal);
/** Set `rates` in bytes per second by kind (leader, follower, log_dirs); brokers null for all; topics may be empty. */
export function setThrottles(rates, brokers, topics) {
  const request = Object.fromEntries(
    Object.entries(rates).map(([kind, rate]) => [`${kind}_bytes_per_second`, rate]),
  );
  return put("/v1/throttles", { ...request, broker_ids: brokers ?? undefined, topics });
}
export const clearThrottles = () => remove("/v1/throttles");
