// Addresses of resources within the console.

import { withValues } from "./address.js";

const part = encodeURIComponent;

export const topicHref = (name, page = "") => `#/topics/${part(name)}${page && "/" + page}`;
/** The address of a record, which is open there among the records after it. */
export const recordHref = (topic, { partition, offset }) =>
  withValues(topicHref(topic, "records"), { partition, from: "offset", place: offset, show: `${partition}:${offset}` });
export const groupHref = (id, page = "") => `#/groups/${part(id)}${page && "/" + page}`;
export const transactionHref = (id) => `#/transactions/id/${part(id)}`;
export const brokerHref = (id) => `#/brokers/${part(id)}`;
