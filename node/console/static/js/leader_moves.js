// Moves of leadership: the confirmation before, and the result as a sentence.

import { electUnclean, transferLeader } from "./ask/leaders.js";
import { ask, open } from "./dialog.js";
import { h } from "./dom.js";
import { choice, field, form } from "./form.js";
import { many } from "./format.js";
import { button, say } from "./parts.js";

/** Move leaders, and show how many moved and why the others did not, or the error. */
export async function reportMoves(ask) {
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
  return `${first} ${many(stayed.length, "partition")} kept their leaders, such as ${place.topic}-${place.partition}: ${reason}`;
}

/** Let the user choose the leader of a partition; `one` is a partition of /v1/topics/{topic}/partitions. */
export function openTransfer(topic, one, refresh) {
  const candidates = one.isr.filter((replica) => replica !== one.leader);
  const close = open(
    `Choose the leader of ${topic}, partition ${one.partition}`,
    null,
    h("p", {}, "The broker becomes the leader at once and is the preferred leader from then on. Only brokers with an in-sync replica can be chosen, so no data is copied."),
    form(
      {
        label: "Transfer leadership",
        action: "Transfer leadership",
        act: async ({ leader }) => {
          const reply = await transferLeader(topic, one.partition, Number(leader));
          close();
          say(sentence(reply));
          refresh();
        },
        others: [button("Cancel", () => close())],
      },
      field(
        "Broker",
        choice(
          "leader",
          candidates.map((replica) => [replica, `broker ${replica}`]),
          candidates[0],
          { autofocus: true },
        ),
      ),
    ),
  );
}

/** Ask for confirmation, and elect replicas that are not in sync. */
export async function askUnclean(partitions, refresh) {
  const words = many(partitions.length, "partition");
  await ask({
    title: `Run an unclean leader election for ${words}?`,
    effect: [
      "A replica that is not in sync becomes the leader. Records that it lacks are lost, although they were acknowledged to their producers.",
      "If possible, start the brokers with the in-sync replicas instead.",
    ],
    action: "Elect and lose records",
    act: async () => say(sentence(await electUnclean(partitions))),
  });
  refresh();
}
