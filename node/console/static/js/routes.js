// The addresses of the console and their pages.

import { aclsPage } from "./pages/acls.js";
import { balancePage } from "./pages/balance.js";
import { brokerPage } from "./pages/broker.js";
import { brokersPage } from "./pages/brokers.js";
import { deadLettersPage } from "./pages/dead_letters.js";
import { doctorPage } from "./pages/doctor.js";
import { groupConfigsPage } from "./pages/group_configs.js";
import { groupPage } from "./pages/group.js";
import { groupResetPage } from "./pages/group_reset.js";
import { groupsPage } from "./pages/groups.js";
import { overviewPage } from "./pages/overview.js";
import { producePage } from "./pages/produce.js";
import { quorumPage } from "./pages/quorum.js";
import { reassignmentsPage } from "./pages/reassignments.js";
import { quotasPage } from "./pages/quotas.js";
import { recordsPage } from "./pages/records.js";
import { throttlesPage } from "./pages/throttles.js";
import { topicClientsPage } from "./pages/topic_clients.js";
import { topicConfigsPage } from "./pages/topic_configs.js";
import { topicPage } from "./pages/topic.js";
import { topicsPage } from "./pages/topics.js";
import { hangingPage } from "./pages/hanging.js";
import { transactionPage } from "./pages/transaction.js";
import { transactionsPage } from "./pages/transactions.js";
import { usersPage } from "./pages/users.js";

export const ROUTES = [
  ["", overviewPage],
  ["topics", topicsPage],
  ["topics/:topic", topicPage],
  ["topics/:topic/records", recordsPage],
  ["topics/:topic/produce", producePage],
  ["topics/:topic/clients", topicClientsPage],
  ["topics/:topic/configs", topicConfigsPage],
  ["groups", groupsPage],
  ["groups/:group", groupPage],
  ["groups/:group/reset", groupResetPage],
  ["groups/:group/configs", groupConfigsPage],
  ["groups/:group/dead-letters", deadLettersPage],
  ["transactions", transactionsPage],
  ["transactions/hanging", hangingPage],
  ["transactions/id/:id", transactionPage],
  ["brokers", brokersPage],
  ["brokers/:broker", brokerPage],
  ["reassignments", reassignmentsPage],
  ["reassignments/balance", balancePage],
  ["reassignments/throttles", throttlesPage],
  ["quorum", quorumPage],
  ["doctor", doctorPage],
  ["access", usersPage],
  ["access/acls", aclsPage],
  ["access/quotas", quotasPage],
];
