// One trace on the page: its panels, its queues and what happened in the step.
// From: `player.mjs` says which step. To: the document.

import { BatchPanel } from "./batch.mjs";
import { colourOf, themeOf } from "./colours.mjs";
import { Pool } from "./pool.mjs";
import { Replay } from "./state.mjs";
import { Summary } from "./summary.mjs";
import { Tables } from "./tables.mjs";
import { Occupancy, Timeline } from "./timeline.mjs";
import { eventsOf, plural, sequenceWords, stepWords } from "./words.mjs";

const CHIPS = 40; // sequences of a queue that are shown one by one
const QUEUES = [
  ["waiting", "Waiting", "not running; the next one to be admitted first"],
  ["held", "Held", "wait for another completion's prompt, or for a token on its way"],
  ["running", "Running", "have a row and pages; the last one gives way first"],
];

export class View {
  /** options: {trace, label, chapters, mark, explain, seek} */
  constructor(parent, options) {
    const { trace } = options;
    this.options = options;
    this.trace = trace;
    this.summary = new Summary(trace);
    this.replay = new Replay(trace, (state) => this.summary.add(state));
    this.length = this.replay.length;
    this.root = element("article", "view", parent);
    const { model, device, dtype, block_size: size } = trace.engine;
    element("h2", "", this.root, options.label);
    element("p", "note", this.root, `${model} on ${device}, ${dtype}; pages of ${plural(size, "token")}; ${plural(trace.sequences.length, "sequence")}`);
    this.status = element("p", "status", this.root);
    this.events = element("ul", "events", this.root);
    const queues = element("div", "queues", this.root);
    this.chips = Object.fromEntries(QUEUES.map(([name, title, note]) => [name, this.queue(queues, title, note)]));
    const grid = element("div", "grid", this.root);
    const pages = element("div", "column", grid);
    const work = element("div", "column", grid);
    const common = { explain: options.explain, seek: options.seek, mark: options.mark };
    this.panels = [
      new Pool(pages, trace, this.summary, common),
      new Tables(pages, trace, this.summary, common),
      new BatchPanel(work, trace, this.summary, common),
      new Timeline(grid, trace, this.summary, common),
      new Occupancy(grid, trace, this.summary, common),
    ];
  }

  queue(parent, title, note) {
    const box = element("section", "queue", parent);
    const heading = element("h3", "", box, title);
    const count = element("span", "count", heading);
    box.title = note;
    return { count, list: element("ul", "", box) };
  }

  show(index) {
    const state = this.replay.at(Math.min(index, this.length - 1));
    this.state = state;
    this.status.textContent = stepWords(state, this.trace);
    this.events.replaceChildren(...eventsOf(state, this.trace).map((event) => this.line(event)));
    const { dark } = themeOf(this.root);
    for (const [name] of QUEUES) this.fill(this.chips[name], state[name], dark);
    for (const panel of this.panels) panel.show(state);
  }

  /** An event, with the chapter that explains it. */
  line({ text, topic }) {
    const item = document.createElement("li");
    item.append(`${text} `, chapterLink(this.options.chapters[topic]));
    return item;
  }

  fill({ count, list }, ids, dark) {
    count.textContent = ` ${ids.length}`;
    const chips = ids.slice(0, CHIPS).map((id) => {
      const chip = document.createElement("li");
      chip.textContent = id;
      chip.style.setProperty("--chip", colourOf(id, dark));
      chip.addEventListener("pointerenter", () => this.options.explain(sequenceWords(this.state, this.sequence(id))));
      return chip;
    });
    if (ids.length > CHIPS) chips.push(element("li", "more", null, `and ${ids.length - CHIPS} more`));
    list.replaceChildren(...chips);
  }

  sequence(id) {
    return this.trace.sequences.find((each) => each.id === id);
  }
}

export function element(tag, className, parent, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  parent?.append(made);
  return made;
}

/** The chapter's name; a link where the page knows where the chapters lie. */
export function chapterLink(chapter) {
  if (!chapter) return document.createTextNode("");
  if (!chapter.href) return element("span", "chapter", null, chapter.title);
  const link = element("a", "chapter", null, chapter.title);
  link.href = chapter.href;
  link.target = "_top"; // out of the frame that a page may have put the player into
  return link;
}
