// The addresses of things within the console.

const part = encodeURIComponent;

export const topicHref = (name, page = "") => `#/topics/${part(name)}${page && "/" + page}`;
export const groupHref = (id, page = "") => `#/groups/${part(id)}${page && "/" + page}`;
export const transactionHref = (id) => `#/transactions/id/${part(id)}`;
export const brokerHref = (id) => `#/brokers/${part(id)}`;
