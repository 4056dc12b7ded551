// Topics: their list, their partitions, their settings.

import { get, path, post, remove, patch } from "../api.js";
import { cluster } from "./cluster.js";

export async function topics(signal) {
  const { data } = await get(`${await cluster(signal)}/topics?include_internal=true`, signal);
  return data.map((one) => ({
    name: one.topic_name,
    isInternal: one.is_internal,
    partitions: one.partitions_count,
    replicas: one.replication_factor,
  }));
}

export async function createTopic(name, partitions, replicas, configs, onlyCheck) {
  return post(`${await cluster()}/topics`, {
    topic_name: name,
    partitions_count: partitions ?? undefined,
    replication_factor: replicas ?? undefined,
    configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
    validate_only: onlyCheck,
  });
}

export const deleteTopic = async (name) => remove((await cluster()) + path`/topics/${name}`);
export const addPartitions = async (name, count) =>
  patch((await cluster()) + path`/topics/${name}`, { partitions_count: count });

/** partition, leader, replicas, isr, and what their leaders' logs hold. */
export async function partitions(name, signal) {
  return (await get(path`/v1/topics/${name}/partitions`, signal)).partitions;
}
