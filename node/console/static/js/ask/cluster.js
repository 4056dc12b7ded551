// The cluster as a whole: who serves it, how it is, how much goes through it.

import { get, path } from "../api.js";

let known = null;
let node = null;

/** The node that serves this page; null until it has said which it is. */
export const nodeId = () => node;

/** Which node serves this page: {cluster_id, node_id, version}. */
export async function whoAmI(signal) {
  const told = await get("/console/node", signal);
  known = told.cluster_id;
  node = told.node_id;
  return told;
}

/** What all paths of /v3 begin with. */
export async function cluster(signal) {
  if (known === null) await whoAmI(signal);
  return path`/v3/clusters/${known}`;
}

export const health = (signal) => get("/v1/health", signal);
export const quorum = (signal) => get("/v1/quorum", signal);
/** {cluster, nodes: [...], silent: [ids]}; each with rates a second and latencies by API. */
export const rates = (signal) => get("/v1/cluster/rates", signal);
