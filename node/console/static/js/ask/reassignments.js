// Reassignments of partitions to other brokers.

import { get, post, query, remove } from "../api.js";

export const reassignments = async (signal) => (await get("/v1/reassignments", signal)).reassignments;
export const reassign = (topic, partition, replicas) =>
  post("/v1/reassignments", { reassignments: [{ topic, partition, replicas }] });
export const cancel = (topic, partition) => remove("/v1/reassignments" + query({ topic, partition }));
