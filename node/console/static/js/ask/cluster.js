// The cluster as a whole: its nodes, its health, its traffic.

import { get, path } from "../api.js";

let known = null;
let node = null;

/** Return the id of the node that serves this page, or null until it has answered. */
export const nodeId = () => node;

/** Ask the node that serves this page who it is: {cluster_id, node_id, version}. */
export async function askNodeIdentity(signal) {
  const reply = await get("/console/node", signal);
  known = reply.cluster_id;
  node = reply.node_id;
  return reply;
}

/** Return the prefix of all paths of /v3. */
export async function cluster(signal) {
  if (known === null) await askNodeIdentity(signal);
  return path`/v3/clusters/${known}`;
}

export const health = (signal) => get("/v1/health", signal);
export const quorum = (signal) => get("/v1/quorum", signal);
/** Return {cluster, nodes: [...], silent: [ids]}, each with rates per second and latencies by API. */
export const rates = (signal) => get("/v1/cluster/rates", signal);
