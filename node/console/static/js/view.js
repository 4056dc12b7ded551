// What a page draws with: it lives until another page is shown, and takes its questions along when it goes.

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
    this.answers = new Map(); // when each part of the page had its last answer
  }

  /** Remember that a part of the page shows what the node answered just now. */
  answered(part) {
    this.answers.set(part, Date.now());
  }

  /** When the oldest of what is shown was answered, in ms; null where nothing was. */
  oldest() {
    return this.answers.size ? Math.min(...this.answers.values()) : null;
  }

  /** The page, its title first. */
  show(title, ...children) {
    document.title = `${visible(title)} · Ottla`;
    this.place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  }

  /**
   * A place that asks (`ask(signal)`) every so often and draws the answer. It has `refresh()`, to ask at once, and
   * `draw()`, to draw the last answer again. Refusals stand above what was drawn last.
   */
  live({ every = 5_000, ask, draw }) {
    const place = h(
      "div",
      { class: "live", "data-own": "", "aria-busy": "true" },
      h("p", { class: "waiting" }, "Asking the node…"),
    );
    let answer;
    let hasAnswer = false;
    let problem = null;
    place.draw = () => {
      if (hasAnswer || problem)
        morph(place, [problem && told(problem), hasAnswer && problem?.status !== 403 && draw(answer)]);
    };
    const work = async () => {
      try {
        answer = await ask(this.signal);
        hasAnswer = true;
        this.answered(place);
        problem = null;
      } catch (error) {
        if (this.signal.aborted || error instanceof NoAnswer) return; // told for the whole page
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

/** What is said instead of an answer: that something is not allowed is no fault. */
function told(problem) {
  if (problem.status !== 403) return note("bad", problem.message);
  const who = principal() ?? "You";
  return note("warn", `${who} may not see this. The node says: ${problem.message}`);
}
