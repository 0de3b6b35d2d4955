// The batch of a step: a square for each decode, a bar for each prefill chunk, and how much of the budget they take.
// From: the state's work. To: a canvas.

import { colourOf } from "./colours.mjs";
import { LABEL_WIDTH, outline, Panel, write } from "./panel.mjs";
import { isDecode } from "./summary.mjs";
import { taskWords } from "./words.mjs";

const BUDGET = 18; // heights, in pixels
const SQUARE = 20;
const BAR = 18;
const GAP = 8;

export class BatchPanel extends Panel {
  constructor(parent, trace, summary, options) {
    const budget = trace.engine.max_num_batched_tokens;
    super(parent, {
      ...options,
      name: "batch",
      title: "Batch of this step",
      label: `On top the budget of ${budget} tokens. Below it a square for each decode, one token, and a bar for each prefill chunk, `
        + "drawn over the whole of its prompt.",
    });
    this.trace = trace;
    this.budget = budget;
    this.scale = Math.max(summary.maxTokens, Math.min(budget, 4 * summary.maxTokens)); // tokens that the top bar's width stands for
    this.columns = 1;
    this.maxDecodes = Math.max(...summary.decodes, 1);
    this.maxChunks = summary.maxChunks;
    this.sequences = new Map(trace.sequences.map((each) => [each.id, each]));
    this.places = [];
  }

  draw() {
    const width = this.width;
    this.columns = Math.max(Math.floor(width / SQUARE), 1);
    const decodeHeight = Math.ceil(this.maxDecodes / this.columns) * SQUARE;
    const context = this.context(width, BUDGET + GAP + decodeHeight + GAP + this.maxChunks * BAR);
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.places = [];
    this.drawBudget(context, width);
    let squares = 0;
    let bars = 0;
    for (const task of this.state.work) {
      if (isDecode(task)) {
        const x = (squares % this.columns) * SQUARE;
        const y = BUDGET + GAP + Math.floor(squares / this.columns) * SQUARE;
        this.drawDecode(context, task, x, y);
        squares += 1;
      } else {
        this.drawChunk(context, task, BUDGET + GAP + decodeHeight + GAP + bars * BAR, width);
        bars += 1;
      }
    }
    for (const place of this.places) {
      if (place.seq === this.hovered?.seq) outline(context, place.x, place.y, place.width, place.height, this.theme.accent);
    }
  }

  drawBudget(context, width) {
    context.fillStyle = this.theme.empty;
    context.fillRect(0, 0, (Math.min(this.budget, this.scale) / this.scale) * width, BUDGET);
    let x = 0;
    for (const task of this.state.work) {
      const length = (task.num / this.scale) * width;
      context.fillStyle = colourOf(task.seq, this.theme.dark);
      context.fillRect(x, 0, length > 3 ? length - 1 : length, BUDGET);
      x += length;
    }
    if (this.budget <= this.scale) {
      context.fillStyle = this.theme.accent;
      context.fillRect((this.budget / this.scale) * width - 2, 0, 2, BUDGET);
    }
  }

  drawDecode(context, task, x, y) {
    context.fillStyle = colourOf(task.seq, this.theme.dark);
    context.fillRect(x, y, SQUARE - 2, SQUARE - 2);
    context.textAlign = "center";
    if (task.seq < 1000) write(context, task.seq, x + SQUARE / 2 - 1, y + SQUARE / 2 - 1, this.theme);
    this.places.push({ seq: task.seq, x, y, width: SQUARE - 2, height: SQUARE - 2 });
  }

  drawChunk(context, task, y, width) {
    const whole = Math.max(this.sequences.get(task.seq).num_prompt, task.start + task.num);
    const scale = (width - LABEL_WIDTH) / whole;
    context.fillStyle = this.theme.text;
    context.textAlign = "left";
    context.fillText(`seq ${task.seq}`, 2, y + BAR / 2);
    context.fillStyle = this.theme.empty;
    context.fillRect(LABEL_WIDTH, y, width - LABEL_WIDTH, BAR - 3);
    context.fillStyle = colourOf(task.seq, this.theme.dark, 0.35);
    context.fillRect(LABEL_WIDTH, y, task.start * scale, BAR - 3);
    context.fillStyle = colourOf(task.seq, this.theme.dark);
    context.fillRect(LABEL_WIDTH + task.start * scale, y, Math.max(task.num * scale, 2), BAR - 3);
    this.places.push({ seq: task.seq, x: 0, y, width, height: BAR - 3 });
  }

  hit(x, y) {
    const place = this.places.find((each) => x >= each.x && x < each.x + each.width && y >= each.y && y < each.y + each.height);
    return place ? { seq: place.seq } : null;
  }

  count() {
    return this.state.work.length;
  }

  item(i) {
    return { seq: this.state.work[i].seq };
  }

  words({ seq }) {
    const task = this.state.work.find((each) => each.seq === seq);
    return task ? taskWords(task, this.sequences.get(seq)) : { text: `Sequence ${seq} has no work in this step.`, topic: "batch" };
  }
}
