// Leadership that is moved: what is asked before, and what came of it in a sentence.

import { electUnclean, transferLeader } from "./ask/leaders.js";
import { ask, open } from "./dialog.js";
import { h } from "./dom.js";
import { choice, field, form } from "./form.js";
import { many } from "./format.js";
import { button, say } from "./parts.js";

/** Ask, and say how many moved and why the others did not, or what was refused. */
export async function tellMoves(ask) {
  try {
    say(sentence(await ask()));
  } catch (error) {
    say(error.message);
  }
}

export function sentence({ moved, failed, kept }) {
  const stayed = [...failed.map((one) => [one, one.message]), ...kept.map((one) => [one, one.reason])];
  const first = `${many(moved, "leader")} moved.`;
  if (stayed.length === 0) return first;
  const [place, reason] = stayed[0];
  return `${first} ${many(stayed.length, "partition")} stayed: ${place.topic}-${place.partition}: ${reason}`;
}

/** Have the user choose who leads one partition; `one` is as /v1/topics/{topic}/partitions tells it. */
export function openTransfer(topic, one, refresh) {
  const able = one.isr.filter((replica) => replica !== one.leader);
  const close = open(
    `Who leads ${topic}, partition ${one.partition}?`,
    null,
    h("p", {}, "It becomes the leader at once, and the preferred leader from now on. Only replicas in sync can be chosen, so nothing is copied."),
    form(
      {
        label: "Transfer leadership",
        action: "Make it the leader",
        act: async ({ leader }) => {
          const told = await transferLeader(topic, one.partition, Number(leader));
          close();
          say(sentence(told));
          refresh();
        },
        others: [button("Cancel", () => close())],
      },
      field(
        "Broker",
        choice(
          "leader",
          able.map((replica) => [replica, `broker ${replica}`]),
          able[0],
          { autofocus: true },
        ),
      ),
    ),
  );
}

/** Ask once, and have replicas lead that are not in sync. */
export async function askUnclean(partitions, refresh) {
  const words = many(partitions.length, "partition");
  await ask({
    title: `Elect a leader that is not in sync for ${words}?`,
    what: [
      "Records that only the replicas now down have are lost, although they were acknowledged to their producers.",
      "If possible, start the brokers with those replicas instead.",
    ],
    action: "Elect it, and lose records",
    act: async () => say(sentence(await electUnclean(partitions))),
  });
  refresh();
}
