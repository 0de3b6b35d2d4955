// The pool of pages as somebody sees it: whose each page is, how full it is, and what this step writes to it.
// From: a state of the replay. To: `pool.mjs` and `words.mjs`.

/** Everything about one page. kind: free, cached (free, and its content can be found again), used, shared. */
export function pageOf(state, block, blockSize) {
  const owners = [];
  for (const [seq, table] of state.tables) {
    const place = table.indexOf(block);
    if (place >= 0) owners.push({ seq, place });
  }
  const cached = state.cached.has(block);
  const kind = owners.length > 1 ? "shared" : owners.length ? "used" : cached ? "cached" : "free";
  const filled = Math.max(0, ...owners.map(({ seq, place }) => filledOf(state, seq, place, blockSize)));
  return { block, kind, owners, cached, filled, written: writtenTo(state, blockSize).get(block) ?? 0 };
}

/** Tokens in a sequence's page, once the step has run. */
export function filledOf(state, seq, place, blockSize) {
  return Math.min(Math.max((state.computed.get(seq) ?? 0) - place * blockSize, 0), blockSize);
}

/** Block → how many slots of it the step writes. */
export function writtenTo(state, blockSize) {
  const written = new Map();
  for (const task of state.work) {
    const table = state.tables.get(task.seq) ?? [];
    for (let at = task.start; at < task.start + task.num; ) {
      const place = Math.floor(at / blockSize);
      const end = Math.min((place + 1) * blockSize, task.start + task.num);
      written.set(table[place], (written.get(table[place]) ?? 0) + end - at);
      at = end;
    }
  }
  return written;
}
