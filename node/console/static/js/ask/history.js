// The last hour of samples: {interval_ms, times_ms, series: {name: values}, silent}.

import { get, path } from "../api.js";

export const clusterHistory = (signal) => get("/v1/cluster/history", signal);
export const brokerHistory = (id, signal) => get(path`/v1/brokers/${id}/history`, signal);
export const topicHistory = (name, signal) => get(path`/v1/topics/${name}/history`, signal);
export const groupHistory = (id, signal) => get(path`/v1/groups/${id}/history`, signal);
