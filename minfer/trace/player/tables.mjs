// The block tables: a line for each running sequence, its pages in order; the number is the page's place in the pool.
// From: the state's block tables. To: a canvas.

import { colourOf } from "./colours.mjs";
import { LABEL_WIDTH, outline, Panel, write } from "./panel.mjs";
import { filledOf } from "./pages.mjs";
import { sequenceWords } from "./words.mjs";

const LINE = 20;

export class Tables extends Panel {
  constructor(parent, trace, summary, options) {
    super(parent, {
      ...options,
      name: "tables",
      title: "Block tables",
      label: "A line for each running sequence, the one that gives way first at the bottom. Its pages lie anywhere in the pool. "
        + "Framed: the pages that it shares with others.",
    });
    this.trace = trace;
    this.summary = summary;
    this.sequences = new Map(trace.sequences.map((each) => [each.id, each]));
  }

  draw() {
    const size = this.trace.engine.block_size;
    const lines = Math.max(this.summary.maxRunning, 1);
    const cell = Math.max(Math.min((this.width - LABEL_WIDTH) / this.summary.maxTable, 28), 2);
    const context = this.context(this.width, lines * LINE);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.state.running.forEach((seq, i) => {
      this.drawLine(context, seq, i * LINE, cell, size);
      if (this.hovered?.seq === seq) outline(context, 0, i * LINE, this.width, LINE - 1, this.theme.accent);
    });
  }

  drawLine(context, seq, y, cell, size) {
    const table = this.state.tables.get(seq) ?? [];
    const width = cell > 4 ? cell - 1.5 : cell;
    context.textAlign = "left";
    context.fillStyle = this.theme.text;
    context.fillText(`seq ${seq}`, 2, y + LINE / 2);
    context.fillStyle = colourOf(seq, this.theme.dark, 0.3);
    context.fillRect(LABEL_WIDTH, y + 1, table.length * cell, LINE - 3);
    context.fillStyle = colourOf(seq, this.theme.dark);
    table.forEach((_, place) => {
      context.fillRect(LABEL_WIDTH + place * cell, y + 1, (width * filledOf(this.state, seq, place, size)) / size, LINE - 3);
    });
    const shared = table.findLastIndex((block) => this.state.refs[block] > 1) + 1; // a common beginning
    if (shared) outline(context, LABEL_WIDTH, y + 1, shared * cell, LINE - 3, this.theme.text, 1);
    if (cell < 22) return;
    context.textAlign = "center";
    table.forEach((block, place) => write(context, block, LABEL_WIDTH + place * cell + width / 2, y + LINE / 2, this.theme));
  }

  hit(x, y) {
    const seq = this.state.running[Math.floor(y / LINE)];
    return seq === undefined ? null : { seq };
  }

  count() {
    return this.state.running.length;
  }

  item(i) {
    return { seq: this.state.running[i] };
  }

  words({ seq }) {
    const table = this.state.tables.get(seq);
    const { text, topic } = sequenceWords(this.state, this.sequences.get(seq));
    return { text: table ? `${text} Its pages: ${table.slice(0, 24).join(", ")}${table.length > 24 ? ", …" : ""}.` : text, topic };
  }
}
