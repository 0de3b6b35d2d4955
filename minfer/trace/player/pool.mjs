// The pool of pages, each in the colour of the sequence that holds it, as full as its slots are.
// From: the state's block tables. To: a canvas.

import { colourOf } from "./colours.mjs";
import { outline, Panel, write } from "./panel.mjs";
import { filledOf, pageOf, writtenTo } from "./pages.mjs";
import { pageWords } from "./words.mjs";

const HEIGHT = 300; // the pool's cells shrink until they fit, down to SMALLEST
const LARGEST = 30;
const SMALLEST = 3;
const MOST_UNUSED = 4; // a pool so many times larger than what was used of it is not drawn whole

/** Marks of a page, as lines from one point to another. */
const hatch = (x, y, side) => [
  [x + side / 2, y, x, y + side / 2],
  [x + side, y + side / 2, x + side / 2, y + side],
];
const frame = (x, y, side) => [[x, y, x + side, y], [x + side, y, x + side, y + side], [x + side, y + side, x, y + side], [x, y + side, x, y]];

/** The side of a cell for so many of them in a width and a height. */
export function cellSize(count, width, height) {
  for (let cell = LARGEST; cell > SMALLEST; cell -= 1) {
    const columns = Math.floor(width / cell);
    if (columns > 0 && Math.ceil(count / columns) * cell <= height) return cell;
  }
  return SMALLEST;
}

export class Pool extends Panel {
  constructor(parent, trace, summary, options) {
    const total = trace.engine.num_blocks;
    const shown = total <= MOST_UNUSED * summary.maxBlock ? total : summary.maxBlock;
    const rest = total - shown;
    super(parent, {
      ...options,
      name: "pool",
      title: "Pool of pages",
      label: "Each cell is a page of the K/V cache, coloured by the sequence that holds it. A frame: this step writes to it. "
        + "A diagonal: several sequences share it. Hatched: free, but its content is still cached."
        + (rest ? ` Pages ${shown + 1} to ${total} were never used and are left out.` : ""),
    });
    this.trace = trace;
    this.shown = shown;
  }

  draw() {
    const { block_size: size } = this.trace.engine;
    const count = this.shown;
    this.cell = cellSize(count, this.width, HEIGHT);
    this.columns = Math.max(Math.floor(this.width / this.cell), 1);
    this.side = this.cell - (this.cell > 8 ? 1.5 : this.cell > 4 ? 1 : 0.5);
    const context = this.context(this.width, Math.ceil(count / this.columns) * this.cell);
    this.drawFree(context, count);
    for (const seq of this.state.tables.keys()) this.drawPagesOf(context, seq, size);
    const shared = [];
    this.state.refs.forEach((refs, block) => refs > 1 && shared.push(block));
    this.lines(context, shared, this.theme.text, 1, (x, y, side) => [[x, y + side, x + side, y]]);
    const written = [...writtenTo(this.state, size).keys()].filter((block) => block !== undefined);
    this.lines(context, written, this.theme.text, this.cell > 12 ? 2 : 1, frame);
    if (this.cell >= 22) this.numbers(context, count);
    if (this.hovered) outline(context, ...this.place(this.hovered.block), this.side, this.side, this.theme.accent, 3);
  }

  /** Everybody's pages first as free ones: hatched where the content can still be found. */
  drawFree(context, count) {
    context.fillStyle = this.theme.empty;
    for (let block = 1; block <= count; block += 1) {
      if (!this.state.refs[block]) context.fillRect(...this.place(block), this.side, this.side);
    }
    const cached = [...this.state.cached].filter((block) => !this.state.refs[block]);
    context.fillStyle = this.theme.cached;
    for (const block of cached) context.fillRect(...this.place(block), this.side, this.side);
    if (this.cell > 6) this.lines(context, cached, this.theme.muted, 1, hatch);
  }

  /** A sequence's pages in its colour: pale, and full up to where its tokens reach. */
  drawPagesOf(context, seq, size) {
    const table = this.state.tables.get(seq);
    context.fillStyle = colourOf(seq, this.theme.dark);
    const partial = [];
    table.forEach((block, place) => {
      const height = (this.side * filledOf(this.state, seq, place, size)) / size;
      const [x, y] = this.place(block);
      if (height > 0) context.fillRect(x, y + this.side - height, this.side, height);
      if (height < this.side) partial.push([x, y, this.side, this.side - height]);
    });
    context.fillStyle = colourOf(seq, this.theme.dark, 0.3);
    for (const [x, y, width, height] of partial) context.fillRect(x, y, width, height);
  }

  /** The same mark on many pages, in one stroke. */
  lines(context, blocks, colour, thickness, marks) {
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    context.beginPath();
    for (const block of blocks) {
      const [x, y] = this.place(block);
      for (const [x0, y0, x1, y1] of marks(x, y, this.side)) {
        context.moveTo(x0, y0);
        context.lineTo(x1, y1);
      }
    }
    context.stroke();
  }

  place(block) {
    return [((block - 1) % this.columns) * this.cell, Math.floor((block - 1) / this.columns) * this.cell];
  }

  numbers(context, count) {
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let block = 1; block <= count; block += 1) {
      const [x, y] = this.place(block);
      write(context, block, x + this.cell / 2, y + this.cell / 2, this.theme);
    }
  }

  hit(x, y) {
    const column = Math.floor(x / this.cell);
    const block = Math.floor(y / this.cell) * this.columns + column + 1;
    return column < this.columns && block >= 1 && block <= this.shown ? { block } : null;
  }

  count() {
    return this.shown;
  }

  item(i) {
    return { block: i + 1 };
  }

  words({ block }) {
    return pageWords(pageOf(this.state, block, this.trace.engine.block_size), this.trace.engine.block_size);
  }
}
