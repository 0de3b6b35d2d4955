// Sentences: what each thing in the player is, and which chapter explains it.
// From: states and pages. To: the line of explanation, the labels that screen readers speak, the list of a step's events.

import { isDecode } from "./summary.mjs";

const SECONDS = 1e6;

export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

export function milliseconds(microseconds) {
  const ms = microseconds / 1000;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

function listed(ids) {
  const names = ids.slice(0, 6).map(String);
  if (ids.length > 6) names.push(`${ids.length - 6} more`);
  const noun = ids.length === 1 ? "sequence" : "sequences";
  return `${noun} ${names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]}`;
}

/** One sentence about a whole step. */
export function stepWords(state, trace) {
  const { entry } = state;
  const pool = `${trace.engine.num_blocks - state.free} of ${plural(trace.engine.num_blocks, "page")} in use`;
  const queues = `${state.running.length} running, ${state.waiting.length + state.held.length} waiting`;
  if (!("step" in entry)) return `After the last step: ${pool}; ${queues}.`;
  const decodes = state.work.filter(isDecode).length;
  const chunks = state.work.length - decodes;
  const tokens = state.work.reduce((sum, task) => sum + task.num, 0);
  const parts = [];
  if (decodes) parts.push(plural(decodes, "decode"));
  if (chunks) parts.push(`${plural(chunks, "prefill chunk")} of ${plural(tokens - decodes, "token")}`);
  const budget = trace.engine.max_num_batched_tokens;
  return `Step ${entry.step}: ${parts.join(" and ")}, ${plural(tokens, "token")} with a budget of ${budget}; ${pool}; ${queues}.`;
}

/** What happened in a step, one line each: {text, topic}. */
export function eventsOf(state, trace) {
  const { entry } = state;
  const events = [];
  const say = (text, topic) => events.push({ text, topic });
  const newcomers = Array.isArray(entry.running) ? [] : (entry.running?.in ?? []).filter((_, i) => i % 2 === 1);
  if (newcomers.length) say(`Admitted: ${listed(newcomers)}. ${newcomers.length === 1 ? "It" : "Each"} got a row and pages for all its known tokens.`, "batch");
  for (const [seq, tokens] of entry.hits ?? []) {
    say(`Sequence ${seq} found ${plural(tokens, "token")} in the cache and need not compute them.`, "prefix");
  }
  if (entry.preempted) say(`Gave way for want of pages: ${listed(entry.preempted)}.`, "preemption");
  const kinds = { copy: "copied before a shared page is written", out: "moved out to host memory", in: "brought back from host memory" };
  for (const [kind, text] of Object.entries(kinds)) {
    const count = (entry.copies ?? []).filter((each) => each[0] === kind).length;
    if (count) say(`${plural(count, "page")} ${text}.`, kind === "copy" ? "prefix" : "preemption");
  }
  const live = new Set([...state.held, ...state.waiting, ...state.running]);
  const leavers = Array.isArray(entry.running) ? [] : (entry.running?.out ?? []).filter((seq) => !live.has(seq));
  if (leavers.length) {
    const reasons = [...new Set(leavers.map((seq) => trace.sequences.find((each) => each.id === seq)?.finish ?? "?"))];
    const whose = leavers.length === 1 ? "Its" : "Their";
    say(`Ended (${reasons.join(", ")}): ${listed(leavers)}. ${whose} pages are free again.`, "batch");
  }
  if (entry.bucket) {
    const [rows, tokens] = entry.bucket;
    say(`Ran as a step filled up to ${plural(rows, "row")}${tokens === null ? "" : ` and ${plural(tokens, "token")}`}.`, "graphs");
  }
  if (state.inFlight) say(`Planned while ${plural(state.inFlight, "earlier step")} had not ended: those tokens are still unknown.`, "overlap");
  if (entry.host) {
    const names = ["schedule", "launch", "wait", "commit"];
    const times = entry.host.map(([, length], i) => `${names[i]} ${milliseconds(length)}`);
    say(`Host: ${times.join(", ")}${entry.device === undefined ? "" : `; device ${milliseconds(entry.device)}`}.`, "overlap");
  }
  const sampling = state.work.filter((task) => task.samples);
  const texts = (entry.sampled ?? []).slice(0, 6).map((token, i) => {
    const text = token < 0 ? "nothing, since it had ended" : (trace.texts[token] === undefined ? `id ${token}` : JSON.stringify(trace.texts[token]));
    return `${sampling[i].seq} → ${text}`;
  });
  if (texts.length) say(`Sampled: ${texts.join(", ")}${entry.sampled.length > 6 ? ", …" : ""}`, "batch");
  return events;
}

/** What a page is. */
export function pageWords(page, blockSize) {
  const { block, kind, owners, filled, written } = page;
  const now = written ? ` This step writes ${plural(written, "slot")} of it.` : "";
  if (kind === "free") return { text: `Page ${block} is free.`, topic: "pages" };
  if (kind === "cached") {
    return { text: `Page ${block} is free, and what it holds can still be found by a prompt that begins alike.`, topic: "prefix" };
  }
  const who = owners.map(({ seq, place }) => `page ${place} of sequence ${seq}`).slice(0, 4).join(", ");
  const fill = `${filled} of ${plural(blockSize, "slot")} filled`;
  if (kind === "shared") return { text: `Page ${block} is shared by ${owners.length}: ${who}; ${fill}.${now}`, topic: "prefix" };
  const cached = page.cached ? " It is in the prefix cache." : "";
  return { text: `Page ${block} is ${who}; ${fill}.${cached}${now}`, topic: "pages" };
}

/** What a task of the batch is. */
export function taskWords(task, sequence) {
  if (isDecode(task)) {
    return { text: `Decode: sequence ${task.seq} computes the token at position ${task.start} and samples the next one.`, topic: "batch" };
  }
  const end = task.start + task.num;
  const again = task.start + task.num > sequence.num_prompt ? " (again: it had given way)" : "";
  const last = task.samples ? " It ends with a sampled token." : " More of it follows, so nothing is sampled.";
  return {
    text: `Prefill: sequence ${task.seq} computes positions ${task.start} to ${end - 1} of its ${sequence.num_prompt} prompt tokens${again}.${last}`,
    topic: "chunks",
  };
}

/** Who a sequence is and how far it has come. */
export function sequenceWords(state, sequence) {
  const output = state.output.get(sequence.id);
  const computed = state.computed.get(sequence.id) ?? 0;
  const which = sequence.index ? `, completion ${sequence.index}` : "";
  const text = sequence.prompt === undefined ? "" : ` “${sequence.prompt.slice(0, 60)}”`;
  return {
    text: `Sequence ${sequence.id} (${sequence.request}${which}):${text} ${plural(sequence.num_prompt, "prompt token")}, ${plural(output, "output token")} so far, K/V of ${computed} in the cache.`,
    topic: "pages",
  };
}

const PHASE_WORDS = {
  none: ["is not there: it has not come yet, or has ended", "batch"],
  queued: ["waits for a row and pages", "batch"],
  held: ["is held until another completion has computed the prompt", "prefix"],
  prefill: ["computes tokens of its prompt", "chunks"],
  decode: ["computes its last token and samples the next one", "batch"],
  idle: ["runs, but has nothing to compute in this step", "batch"],
  preempted: ["has given way: its pages went to others", "preemption"],
};

export function phaseWords(seq, phase, step) {
  const [text, topic] = PHASE_WORDS[phase];
  return { text: `Entry ${step}: sequence ${seq} ${text}.`, topic };
}

export function occupancyWords(summary, i) {
  const { used, cachedFree, total, decodes, prefills } = summary;
  return {
    text: `Entry ${i}: ${used[i]} of ${plural(total, "page")} in use, ${cachedFree[i]} free ones still cached; the batch has ${plural(decodes[i], "decode token")} and ${plural(prefills[i], "prefill token")}.`,
    topic: "pages",
  };
}

export function seconds(microseconds) {
  return `${(microseconds / SECONDS).toFixed(3)} s`;
}
