// The replay: a trace's edits carried out, so that the engine's state is there at any step, in any order of asking.
// From: the trace's JSON (docs/trace.md). To: the panels, which draw a state. minfer/trace/replay.py does the same in Python.

const KEYFRAME_EVERY = 64;

/** The list after an edit: a whole list, or who leaves and then who comes in where. */
export function applyEdit(old, edit) {
  if (Array.isArray(edit)) return edit;
  const out = new Set(edit.out ?? []);
  const list = old.filter((each) => !out.has(each));
  const places = edit.in ?? [];
  for (let i = 0; i < places.length; i += 2) list.splice(places[i], 0, places[i + 1]);
  return list;
}

/** The state before the first entry. Lists in it are replaced and never written to, so that a copy of the maps is a copy. */
export function emptyState(trace) {
  return {
    index: -1,
    entry: {},
    held: [],
    waiting: [],
    running: [],
    tables: new Map(), // sequence → its blocks
    swapped: new Map(), // sequence → its blocks in host memory
    computed: new Map(), // sequence → tokens with K/V in the cache once the step has run
    output: new Map(trace.sequences.map((each) => [each.id, each.num_output ?? 0])), // sequence → output tokens that the host knows
    cached: new Set(), // blocks in the prefix cache's tree
    refs: new Int32Array(trace.engine.num_blocks + 1), // in how many tables each block is
    numCachedFree: 0, // cached blocks in nobody's table
    free: 0,
    inFlight: 0,
    work: [], // {seq, row, start, num, samples}
    ends: new Map(), // sequence → [row, where its next token goes]
    lastIds: [],
    unread: [], // steps whose tokens the host has not seen yet: [work, entry]
    gaveWay: new Set(), // preempted, and not running again yet
  };
}

export function copyState(state) {
  return {
    ...state,
    tables: new Map(state.tables),
    swapped: new Map(state.swapped),
    computed: new Map(state.computed),
    output: new Map(state.output),
    cached: new Set(state.cached),
    refs: state.refs.slice(),
    ends: new Map(state.ends),
    unread: [...state.unread],
    gaveWay: new Set(state.gaveWay),
  };
}

/** Carry out one entry, in place. */
export function advance(state, entry, index) {
  state.index = index;
  state.entry = entry;
  for (const queue of ["held", "waiting", "running"]) if (queue in entry) state[queue] = applyEdit(state[queue], entry[queue]);
  for (const [seq, keep, blocks] of entry.tables ?? []) editTable(state, seq, keep, blocks);
  for (const [seq, keep, blocks] of entry.swapped ?? []) setTable(state.swapped, seq, keep, blocks);
  for (const seq of entry.preempted ?? []) {
    state.computed.set(seq, 0);
    state.gaveWay.add(seq);
  }
  if (state.gaveWay.size) for (const seq of state.running) state.gaveWay.delete(seq);
  for (const block of entry.cached ?? []) toggleCached(state, block);
  state.free = entry.free ?? state.free;
  state.inFlight = entry.in_flight ?? 0;
  while (state.unread.length > state.inFlight) readTokens(state, ...state.unread.shift());
  state.work = [];
  if ("step" in entry) {
    state.work = (entry.work ?? state.lastIds).map((each) => taskOf(state, each));
    state.lastIds = state.work.map((task) => task.seq);
    state.unread.push([state.work, entry]);
  }
  return state;
}

function taskOf(state, each) {
  const [seq, row, start, num, samples] = Array.isArray(each) ? each : [each, ...state.ends.get(each), 1, 1];
  state.ends.set(seq, [row, start + num]);
  state.computed.set(seq, start + num);
  return { seq, row, start, num, samples: Boolean(samples) };
}

function setTable(tables, seq, keep, blocks) {
  const table = (tables.get(seq) ?? []).slice(0, keep).concat(blocks);
  if (table.length) tables.set(seq, table);
  else tables.delete(seq);
}

function editTable(state, seq, keep, blocks) {
  for (const block of (state.tables.get(seq) ?? []).slice(keep)) {
    state.refs[block] -= 1;
    if (state.refs[block] === 0 && state.cached.has(block)) state.numCachedFree += 1;
  }
  for (const block of blocks) {
    if (state.refs[block] === 0 && state.cached.has(block)) state.numCachedFree -= 1;
    state.refs[block] += 1;
  }
  setTable(state.tables, seq, keep, blocks);
}

function toggleCached(state, block) {
  const here = state.cached.has(block);
  if (here) state.cached.delete(block);
  else state.cached.add(block);
  if (state.refs[block] === 0) state.numCachedFree += here ? -1 : 1;
}

function readTokens(state, work, entry) {
  const sampling = work.filter((task) => task.samples);
  (entry.sampled ?? []).forEach((token, i) => {
    if (token < 0) return;
    state.output.set(sampling[i].seq, state.output.get(sampling[i].seq) + 1);
  });
}

/** A trace whose state can be asked for at any entry. Goes forward by edits, and back from the nearest keyframe. */
export class Replay {
  constructor(trace, onState = () => {}) {
    this.trace = trace;
    this.length = trace.steps.length;
    this.keyframes = [];
    const state = emptyState(trace);
    for (let i = 0; i < this.length; i += 1) {
      advance(state, trace.steps[i], i);
      if (i % KEYFRAME_EVERY === 0) this.keyframes.push(copyState(state));
      onState(state);
    }
    this.state = this.length ? copyState(this.keyframes[0]) : state;
  }

  /** The state at entry k; it is written over by the next call. */
  at(k) {
    const near = this.keyframes[Math.floor(k / KEYFRAME_EVERY)];
    if (k < this.state.index || near.index > this.state.index) this.state = copyState(near);
    while (this.state.index < k) advance(this.state, this.trace.steps[this.state.index + 1], this.state.index + 1);
    return this.state;
  }
}
