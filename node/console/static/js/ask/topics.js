// Topics: their list, their partitions, their settings.

import { get, path, post, query, remove, patch } from "../api.js";
import { cluster } from "./cluster.js";

const MAX_GROUPS = 1_000; // the node's

/** All of them; what is in them is null but for the first so many that have `search` in their names. */
export async function topics(search, detailed, signal) {
  return (await get("/v1/topics" + query({ search, detailed }), signal)).topics;
}

/** Which groups read which topics, by what they committed: {topics: [{topic, groups}], groups_left_out}. */
export const topicGroups = (signal, topic) =>
  get("/v1/topic-groups" + query({ topic, detailed: MAX_GROUPS }), signal);
/** {producers, count, unavailable}: those that the logs know. */
export const topicProducers = (topic, signal) => get(path`/v1/topics/${topic}/producers`, signal);

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
