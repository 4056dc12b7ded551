// The drawing functions of a page: a view lasts until another page is shown, and then cancels its requests.

import { NoAnswer } from "./api.js";
import { h, visible } from "./dom.js";
import { morph } from "./morph.js";
import { note } from "./parts.js";
import { repeat } from "./repeat.js";
import { principal } from "./session.js";

export class View {
  constructor(place) {
    this.place = place;
    this.end = new AbortController();
    this.signal = this.end.signal;
    this.answers = new Map(); // part of the page -> the time of its last answer
  }

  /** Note that a part of the page shows an answer from now. */
  answered(part) {
    this.answers.set(part, Date.now());
  }

  /** Return the time of the oldest answer on the page in ms; null if there is none. */
  oldest() {
    return this.answers.size ? Math.min(...this.answers.values()) : null;
  }

  /** Show the page, its title first. */
  show(title, ...children) {
    document.title = `${visible(title)} · Ottla`;
    this.place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  }

  /**
   * A place that asks (`ask(signal)`) periodically and draws the answer. It has `refresh()`, to ask at once, and
   * `draw()`, to draw the last answer again. Errors are shown above the last drawing.
   */
  live({ every = 5_000, ask, draw }) {
    const place = h(
      "div",
      { class: "live", "data-own": "", "aria-busy": "true" },
      h("p", { class: "waiting" }, "Loading…"),
    );
    let answer;
    let hasAnswer = false;
    let problem = null;
    place.draw = () => {
      if (hasAnswer || problem)
        morph(place, [problem && reply(problem), hasAnswer && problem?.status !== 403 && draw(answer)]);
    };
    const work = async () => {
      try {
        answer = await ask(this.signal);
        hasAnswer = true;
        this.answered(place);
        problem = null;
      } catch (error) {
        if (this.signal.aborted || error instanceof NoAnswer) return; // shown for the whole page
        problem = error;
      }
      if (this.signal.aborted) return;
      place.removeAttribute("aria-busy");
      place.draw();
    };
    place.refresh = repeat(every, work, this.signal);
    return place;
  }
}

/** Show an error instead of an answer; a missing permission is not shown as a fault. */
function reply(problem) {
  if (problem.status !== 403) return note("bad", problem.message);
  const user = principal() ?? "You";
  return note("warn", `${user} may not see this. The node says: ${problem.message}`);
}
