// Who leads: elections, and leadership given to one replica. Partitions are {topic, partition}.

import { post } from "../api.js";

export const electPreferred = (partitions) => post("/v1/leaders/elect", { type: "preferred", partitions });
/** Of a replica that is not in sync: what only others had is lost. */
export const electUnclean = (partitions) => post("/v1/leaders/elect", { type: "unclean", partitions });
export const transferLeader = (topic, partition, leader) =>
  post("/v1/leaders/transfer", { topic, partition, leader });
export const rebalanceLeaders = () => post("/v1/leaders/rebalance");
