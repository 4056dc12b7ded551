// A group's settings, which may exist before the group does.

import { alterGroupConfig, groupConfigs, resetGroupConfig } from "../ask/configs.js";
import { configList } from "../config_list.js";
import { groupHead } from "../group_head.js";

export function groupConfigsPage(view, { group }) {
  view.show(
    `Configs of ${group}`,
    groupHead(view, group, "configs"),
    configList(view, {
      owner: `group ${group}`,
      load: (signal) => groupConfigs(group, signal),
      alter: (name, value) => alterGroupConfig(group, name, value),
      reset: (name) => resetGroupConfig(group, name),
    }),
  );
}
