// The cluster as a whole: who serves it, how it is, how much goes through this node.

import { get, path, post } from "../api.js";

let known = null;

/** Which node serves this page: {cluster_id, node_id, version}. */
export async function whoAmI(signal) {
  const told = await get("/console/node", signal);
  known = told.cluster_id;
  return told;
}

/** What all paths of /v3 begin with. */
export async function cluster(signal) {
  if (known === null) await whoAmI(signal);
  return path`/v3/clusters/${known}`;
}

export const health = (signal) => get("/v1/health", signal);
export const quorum = (signal) => get("/v1/quorum", signal);
export const rates = (signal) => get("/v1/rates", signal);
export const electPreferred = (partitions) => post("/v1/leaders/elect", { type: "preferred", partitions });
export const rebalanceLeaders = () => post("/v1/leaders/rebalance");
