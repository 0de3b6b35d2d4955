// What the timeline and the plots need of every step at once: each sequence's phase, and how full the pool and the batch were.
// From: one pass over the replay. To: `timeline.mjs`. minfer/trace/phases.py names the same phases in Python.

export const PHASES = ["none", "queued", "held", "prefill", "decode", "idle", "preempted"];
const NUMBER = Object.fromEntries(PHASES.map((name, i) => [name, i]));

/** Whether a task computes more than the next token of a sequence that is being generated. */
export function isDecode(task) {
  return task.num === 1 && task.samples;
}

export class Summary {
  constructor(trace) {
    const count = trace.steps.length;
    this.numSteps = count;
    this.ids = trace.sequences.map((each) => each.id);
    this.lane = new Map(this.ids.map((id, i) => [id, i]));
    this.phase = new Uint8Array(count * this.ids.length); // [sequence][step]
    this.used = new Int32Array(count); // pages in somebody's table
    this.cachedFree = new Int32Array(count); // pages in nobody's table whose content can be found again
    this.decodes = new Int32Array(count); // tokens
    this.prefills = new Int32Array(count); // tokens
    this.maxTokens = 1;
    this.maxRunning = 0;
    this.maxChunks = 0;
    this.maxTable = 1;
    this.maxBlock = 1; // the highest page that was ever in a table
    this.total = trace.engine.num_blocks;
  }

  /** Take note of a state; called once for each entry, in order. */
  add(state) {
    const i = state.index;
    for (const seq of state.waiting) this.set(seq, i, state.gaveWay.has(seq) ? "preempted" : "queued");
    for (const seq of state.held) this.set(seq, i, state.gaveWay.has(seq) ? "preempted" : "held");
    for (const seq of state.running) this.set(seq, i, "idle");
    let chunks = 0;
    for (const task of state.work) {
      const decode = isDecode(task);
      this.set(task.seq, i, decode ? "decode" : "prefill");
      if (decode) this.decodes[i] += 1;
      else this.prefills[i] += task.num;
      chunks += decode ? 0 : 1;
    }
    this.used[i] = this.total - state.free;
    this.cachedFree[i] = state.numCachedFree;
    this.maxTokens = Math.max(this.maxTokens, this.decodes[i] + this.prefills[i]);
    this.maxRunning = Math.max(this.maxRunning, state.running.length);
    this.maxChunks = Math.max(this.maxChunks, chunks);
    for (const table of state.tables.values()) this.maxTable = Math.max(this.maxTable, table.length);
    for (const [, , blocks] of state.entry.tables ?? []) this.maxBlock = Math.max(this.maxBlock, ...blocks);
  }

  set(seq, step, phase) {
    this.phase[this.lane.get(seq) * this.numSteps + step] = NUMBER[phase];
  }

  phaseOf(seq, step) {
    return PHASES[this.phase[this.lane.get(seq) * this.numSteps + step]];
  }
}
