// The engine as it is now: its queues, its pages and its last batch, drawn with the panels of the trace player.
// From: the JSON of GET /engine/state. To: the document.

import { BatchPanel } from "./batch.mjs";
import { colourOf, themeOf } from "./colours.mjs";
import { Pool } from "./pool.mjs";
import { isDecode } from "./summary.mjs";
import { Tables } from "./tables.mjs";
import { plural } from "./words.mjs";

const CHIPS = 40; // sequences of a queue that are shown one by one
const QUEUES = ["waiting", "held", "running"];

/** What the player's panels draw, made of the engine's own account of itself. */
export function stateOf(content) {
  const refs = new Array(content.engine.num_blocks + 1).fill(0);
  const tables = new Map();
  for (const { id, table } of content.sequences) {
    if (!table.length) continue;
    tables.set(id, table);
    for (const block of table) refs[block] += 1;
  }
  const byId = (key) => new Map(content.sequences.map((each) => [each.id, each[key]]));
  const alive = byId("id");
  const tasks = content.work.map(([seq, row, start, num, samples]) => ({ seq, row, start, num, samples }));
  return {
    running: content.running,
    waiting: content.waiting,
    held: content.held,
    tables,
    refs,
    cached: new Set(content.cached),
    computed: byId("num_computed"),
    output: byId("num_output"),
    work: tasks.filter(({ seq }) => alive.has(seq)),
    free: content.free,
  };
}

/** One sentence about it. */
export function words(content) {
  const { num_blocks: total } = content.engine;
  const state = stateOf(content);
  const decodes = state.work.filter(isDecode).length;
  const chunks = state.work.length - decodes;
  const batch = state.work.length ? `${plural(decodes, "decode")} and ${plural(chunks, "prefill chunk")} in the batch` : "nothing to do";
  const queued = state.waiting.length + state.held.length;
  const used = `${total - content.free} of ${plural(total, "page")} in use`;
  return `Step ${content.num_steps}: ${batch}; ${state.running.length} running, ${queued} waiting; ${used}; ${plural(content.num_preemptions, "preemption")} so far.`;
}

export class Live {
  /** explain: called with {text} of what the pointer is on, or null. */
  constructor(parent, explain) {
    this.parent = parent;
    this.options = { explain, seek: () => {} };
    this.summary = { maxBlock: 1, maxTable: 1, maxRunning: 1, maxTokens: 1, maxChunks: 0, decodes: [0] };
  }

  build(content) {
    const queues = document.createElement("div");
    queues.className = "queues";
    this.parent.append(queues);
    this.lists = Object.fromEntries(QUEUES.map((name) => [name, this.queue(queues, name)]));
    this.trace = { engine: content.engine, sequences: [] };
    this.batch = new BatchPanel(this.parent, this.trace, this.summary, this.options);
    this.pool = new Pool(this.parent, this.trace, { ...this.summary, maxBlock: content.engine.num_blocks }, this.options);
    this.tables = new Tables(this.parent, this.trace, this.summary, this.options);
    this.panels = [this.batch, this.pool, this.tables];
  }

  queue(parent, name) {
    const box = document.createElement("section");
    box.className = "queue";
    const heading = document.createElement("h3");
    heading.textContent = name[0].toUpperCase() + name.slice(1);
    const list = document.createElement("ul");
    box.append(heading, list);
    parent.append(box);
    return list;
  }

  /** Draw this account → a sentence about it. */
  show(content) {
    if (!this.panels) this.build(content);
    const state = stateOf(content);
    this.grow(content, state);
    const sequences = new Map(content.sequences.map((each) => [each.id, { ...each, request: "request" }]));
    for (const panel of [this.tables, this.batch]) panel.sequences = sequences;
    for (const name of QUEUES) this.chips(this.lists[name], state[name]);
    for (const panel of this.panels) {
      if (panel.hovered?.seq !== undefined && !sequences.has(panel.hovered.seq)) panel.point(null);
      panel.show(state);
    }
    return words(content);
  }

  /** Panels keep the size that they once needed, so that nothing jumps. */
  grow(content, state) {
    const decodes = state.work.filter(isDecode).length;
    const tokens = state.work.reduce((sum, { num }) => sum + num, 0);
    const most = (name, ...values) => { this.summary[name] = Math.max(this.summary[name], ...values); };
    most("maxRunning", state.running.length);
    most("maxTable", ...[...state.tables.values()].map((table) => table.length));
    most("maxTokens", tokens);
    most("maxChunks", state.work.length - decodes);
    this.batch.maxDecodes = Math.max(this.batch.maxDecodes, decodes);
    this.batch.maxChunks = this.summary.maxChunks;
    this.batch.scale = Math.max(this.summary.maxTokens, Math.min(content.engine.max_num_batched_tokens, 4 * this.summary.maxTokens));
  }

  chips(list, ids) {
    const { dark } = themeOf(list);
    const items = ids.slice(0, CHIPS).map((seq) => {
      const item = document.createElement("li");
      item.textContent = seq;
      item.style.setProperty("--chip", colourOf(seq, dark));
      return item;
    });
    if (ids.length > CHIPS) {
      const more = document.createElement("li");
      more.className = "more";
      more.textContent = `and ${ids.length - CHIPS} more`;
      items.push(more);
    }
    list.replaceChildren(...items);
  }

  paint() {
    for (const panel of this.panels ?? []) panel.paint();
  }
}
