// Topics: their list, their partitions, their settings.

import { get, path, post, query, remove, patch } from "../api.js";
import { cluster } from "./cluster.js";

const MAX_GROUPS = 1_000; // the limit of the node

/** Return all topics; details are null except for the first `detailed` whose names contain `search`. */
export async function topics(search, detailed, signal) {
  return (await get("/v1/topics" + query({ search, detailed }), signal)).topics;
}

/** Return the groups with committed offsets by topic: {topics: [{topic, groups}], groups_left_out}. */
export const topicGroups = (signal, topic) =>
  get("/v1/topic-groups" + query({ topic, detailed: MAX_GROUPS }), signal);
/** Return {producers, count, unavailable}: the producers in the state of the logs. */
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

/** Return for each partition its number, leader, replicas, ISR, and the offsets and sizes of its log. */
export async function partitions(name, signal) {
  return (await get(path`/v1/topics/${name}/partitions`, signal)).partitions;
}
