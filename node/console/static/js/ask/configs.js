// Settings of topics, brokers and groups.

import { get, path, post } from "../api.js";
import { cluster } from "./cluster.js";

const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: "this topic",
  DYNAMIC_BROKER_CONFIG: "this broker",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
  STATIC_BROKER_CONFIG: "the broker's file",
  DEFAULT_CONFIG: "default",
  DYNAMIC_BROKER_LOGGER_CONFIG: "the broker's loggers",
  DYNAMIC_GROUP_CONFIG: "this group",
};
const OWN = new Set(["DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_GROUP_CONFIG"]);

const topicPath = async (topic) => (await cluster()) + path`/topics/${topic}/configs`;
const brokerPath = async (broker) => (await cluster()) + path`/brokers/${broker}/configs`;
const groupPath = async (group) => (await cluster()) + path`/groups/${group}/configs`;

async function load(where, signal) {
  const { data } = await get(where + "?include_documentation=true", signal);
  return data.map(setting);
}

function setting(one) {
  return {
    name: one.name,
    value: one.value,
    isDefault: one.is_default,
    isReadOnly: one.is_read_only,
    isSensitive: one.is_sensitive,
    isOwn: OWN.has(one.source),
    source: SOURCES[one.source] ?? one.source,
    documentation: one.documentation ?? null,
  };
}

const change = async (where, name, operation, value) =>
  post(`${await where}:alter`, { data: [{ name, operation, value }] });

export const topicConfigs = async (topic, signal) => load(await topicPath(topic), signal);
export const alterTopicConfig = (topic, name, value) => change(topicPath(topic), name, "SET", value);
export const resetTopicConfig = (topic, name) => change(topicPath(topic), name, "DELETE");
export const brokerConfigs = async (broker, signal) => load(await brokerPath(broker), signal);
export const alterBrokerConfig = (broker, name, value) => change(brokerPath(broker), name, "SET", value);
export const resetBrokerConfig = (broker, name) => change(brokerPath(broker), name, "DELETE");
export const groupConfigs = async (group, signal) => load(await groupPath(group), signal);
export const alterGroupConfig = (group, name, value) => change(groupPath(group), name, "SET", value);
export const resetGroupConfig = (group, name) => change(groupPath(group), name, "DELETE");
