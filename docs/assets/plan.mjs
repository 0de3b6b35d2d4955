// The calculators: fields for a model and a card, figures and a plot that follow them.
// From: the tables of models and cards, which scripts/pages/plan.py puts into the page. To: the element #plan of docs/plan.md.

import {
  decodeSeconds, kvBytesPerToken, numSequences, prefillFlops, prefillSeconds, turningBatch, weightBytes,
} from "../../minfer/plan/formulas.mjs";

const ITEMSIZES = { bfloat16: 2, float16: 2, float32: 4 };
const SIZES = {
  num_layers: "Layers", hidden_size: "Hidden size", intermediate_size: "MLP size", num_heads: "Query heads",
  num_kv_heads: "K/V heads", head_dim: "Head size", vocab_size: "Vocabulary",
};
const NUMBERS = { // name: [label, value, least, step, most]
  context: ["Tokens of a sequence", 2048, 1, 1],
  batch: ["Sequences side by side", 64, 1, 1],
  tp: ["Cards that share the model", 1, 1, 1],
  share: ["Share of the memory to use", 0.9, 0.05, 0.05, 1],
  blockSize: ["Tokens in a block", 16, 1, 1],
};
const LINES = { // figure: [what it is, unit]
  weights_gib: ["Weights", "GiB"],
  kv_bytes_per_token: ["K/V of a token", "bytes"],
  num_sequences: ["Sequences of that length that fit", ""],
  decode_ms_1: ["A decode step of one sequence", "ms at least"],
  decode_ms: ["A decode step of all of them", "ms at least"],
  decode_tok_s: ["Their tokens a second", "at most"],
  prefill_tflop: ["Prefill of one sequence", "TFLOP"],
  prefill_ms: ["The same", "ms at least"],
  turning_batch_short: ["Batch from which decodes are bound by compute, at context 1", ""],
  turning_batch: ["The same at that length", ""],
};
const PLOT = { width: 640, height: 300, left: 70, right: 616, top: 20, bottom: 256, most: 12 }; // batches of 1 to 2 ** most

/** What minfer/plan/report.py has in its table, by the same keys. given: {itemsize, context, batch, blockSize, share, tp}. */
export function figures(shape, card, { itemsize, context, batch, blockSize, share, tp }) {
  const step = (count) => decodeSeconds(shape, card, itemsize, count, context, tp);
  return {
    weights_gib: weightBytes(shape, itemsize, tp) / 2 ** 30,
    kv_bytes_per_token: kvBytesPerToken(shape, itemsize, tp),
    num_sequences: numSequences(shape, card, itemsize, context, blockSize, share, tp),
    decode_ms_1: 1e3 * step(1),
    decode_ms: 1e3 * step(batch),
    decode_tok_s: batch / step(batch),
    prefill_tflop: prefillFlops(shape, context) / 1e12,
    prefill_ms: 1e3 * prefillSeconds(shape, card, itemsize, context, tp),
    turning_batch_short: turningBatch(shape, card, itemsize, 1, tp),
    turning_batch: turningBatch(shape, card, itemsize, context, tp),
  };
}

/** Whole numbers whole, others with three digits; none as a word. */
export function shown(value) {
  if (value === null) return "never";
  if (Number.isInteger(value) || value >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

function make(tag, attributes, parent, text) {
  const space = ["svg", "path", "line", "text"].includes(tag) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

class Calculator {
  constructor(root, models, cards) {
    this.models = models;
    this.cards = cards;
    this.fields = {};
    const form = make("form", { class: "plan-form" }, root);
    this.choice(form, "model", "Model", [...Object.keys(models), "own sizes"]);
    this.choice(form, "card", "Card", Object.keys(cards), (key) => cards[key].name);
    this.choice(form, "dtype", "Data type", Object.keys(ITEMSIZES));
    for (const [name, [label, ...limits]] of Object.entries(NUMBERS)) this.number(form, name, label, ...limits);
    const sizes = make("details", {}, root);
    make("summary", {}, sizes, "The model's sizes");
    const grid = make("div", { class: "plan-form" }, sizes);
    for (const [name, label] of Object.entries(SIZES)) this.number(grid, name, label, 1, 1, 1);
    this.fields.tied = make("input", { type: "checkbox" }, make("label", {}, grid, "Embedding is the LM head too "));
    this.table = make("tbody", {}, make("table", { class: "plan-table" }, root));
    this.trouble = make("p", { role: "alert", class: "plan-trouble" }, root);
    this.plot = make("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, class: "plan-plot", role: "img" }, root);
    this.note = make("p", { class: "plan-note" }, root);
    form.addEventListener("submit", (event) => event.preventDefault());
    this.fields.model.addEventListener("change", () => this.take(models[this.fields.model.value]));
    grid.addEventListener("input", () => { this.fields.model.value = "own sizes"; });
    root.addEventListener("input", () => this.update());
    this.fields.model.value = "llama-8b";
    this.fields.card.value = "h200";
    this.take(models["llama-8b"]);
  }

  choice(parent, name, label, values, words = (value) => value) {
    this.fields[name] = make("select", { name }, make("label", {}, parent, label));
    for (const value of values) make("option", { value }, this.fields[name], words(value));
  }

  number(parent, name, label, value, min, step, max = 1e9) {
    const attributes = { type: "number", name, value, min, max, step, inputmode: "decimal" };
    this.fields[name] = make("input", attributes, make("label", {}, parent, label));
  }

  /** A model's sizes into the fields; none of its own: they stay as they are. */
  take(shape) {
    for (const name of shape ? Object.keys(SIZES) : []) this.fields[name].value = shape[name];
    if (shape) this.fields.tied.checked = shape.tied;
    this.update();
  }

  update() {
    const card = this.cards[this.fields.card.value];
    this.trouble.textContent = "";
    try {
      const shape = { ...this.values(SIZES), tied: this.fields.tied.checked };
      const given = { ...this.values(NUMBERS), itemsize: ITEMSIZES[this.fields.dtype.value] };
      this.show(figures(shape, card, given), shape, card, given);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.trouble.textContent = `${error.message}.`;
      this.table.replaceChildren();
      this.plot.replaceChildren();
    }
  }

  /** The numbers in these fields. Throws a RangeError where one cannot be. */
  values(names) {
    return Object.fromEntries(Object.keys(names).map((name) => {
      const field = this.fields[name];
      const label = field.parentElement.firstChild.textContent;
      if (!field.value || !field.checkValidity()) throw new RangeError(`${label}: ${field.value || "nothing"} cannot be`);
      return [name, Number(field.value)];
    }));
  }

  show(found, shape, card, given) {
    this.table.replaceChildren();
    for (const [key, [what, unit]] of Object.entries(LINES)) {
      const row = make("tr", { "data-key": key }, this.table);
      make("th", { scope: "row" }, row, what);
      make("td", {}, row, shown(found[key]));
      make("td", {}, row, found[key] === null ? "" : unit);
    }
    const sheet = make("a", { href: card.source }, this.note, "the card's data sheet");
    this.note.replaceChildren("From ", sheet, ", for each card. A real step takes longer.");
    this.draw(found, shape, card, given);
  }

  /** Tokens a second over the batch, both in powers of two; where it turns, and how many sequences fit. */
  draw(found, shape, card, given) {
    const { left, right, top, bottom, most } = PLOT;
    const speed = (batch) => batch / decodeSeconds(shape, card, given.itemsize, batch, given.context, given.tp);
    const [low, high] = [Math.floor(Math.log2(speed(1))), Math.ceil(Math.log2(speed(2 ** most)))];
    const x = (batch) => left + (Math.log2(batch) / most) * (right - left);
    const y = (value) => bottom - ((Math.log2(value) - low) / Math.max(high - low, 1)) * (bottom - top);
    this.plot.replaceChildren();
    for (let power = 0; power <= most; power += 2) {
      make("line", { class: "grid", x1: x(2 ** power), x2: x(2 ** power), y1: top, y2: bottom }, this.plot);
      make("text", { x: x(2 ** power), y: bottom + 18, "text-anchor": "middle" }, this.plot, String(2 ** power));
    }
    for (let power = low; power <= high; power += Math.max(Math.ceil((high - low) / 6), 1)) {
      make("line", { class: "grid", x1: left, x2: right, y1: y(2 ** power), y2: y(2 ** power) }, this.plot);
      make("text", { x: left - 8, y: y(2 ** power) + 4, "text-anchor": "end" }, this.plot, shown(2 ** power));
    }
    const axis = { x: (left + right) / 2, y: bottom + 40, "text-anchor": "middle" };
    make("text", axis, this.plot, "sequences side by side; upwards, tokens a second at most");
    const batches = Array.from({ length: 8 * most + 1 }, (_, i) => 2 ** (i / 8));
    const points = batches.map((batch) => `${x(batch).toFixed(1)},${y(speed(batch)).toFixed(1)}`);
    make("path", { class: "curve", d: `M${points.join("L")}` }, this.plot);
    const { num_sequences: fit, turning_batch: turns } = found;
    const marks = [["fit", fit, "fit"], ["turn", turns, "bound by compute"], ["now", given.batch, "chosen"]];
    marks.filter(([, batch]) => batch >= 1 && batch <= 2 ** most).forEach(([name, batch, words], i) => {
      const before = x(batch) > (left + right) / 2;
      make("line", { class: `mark ${name}`, x1: x(batch), x2: x(batch), y1: top, y2: bottom }, this.plot);
      const place = { class: name, x: x(batch) + (before ? -5 : 5), y: top + 14 + 20 * i, "text-anchor": before ? "end" : "start" };
      make("text", place, this.plot, `${shown(batch)} ${words}`);
    });
    const turn = turns === null ? "it stays bound by memory" : `from ${shown(turns)} on it is bound by compute`;
    const words = `${shown(found.decode_tok_s)} at ${given.batch}; ${turn}; ${shown(fit)} sequences fit`;
    this.plot.setAttribute("aria-label", `Tokens a second over the batch: ${words}.`);
  }
}

if (typeof document !== "undefined") {
  const { models, cards } = JSON.parse(document.getElementById("plan-data").textContent);
  window.minferPlan = new Calculator(document.getElementById("plan"), models, cards);
}
