// Two pictures of the whole trace, with a line at the current step: what each sequence did, and how full pool and batch were.
// From: the summary of all steps. To: canvases; a click goes to its step. What does not change is drawn once.

import { channels } from "./colours.mjs";
import { Panel } from "./panel.mjs";
import { PHASES } from "./summary.mjs";
import { occupancyWords, phaseWords } from "./words.mjs";

const LANE = { smallest: 2, largest: 14, height: 320 };
const PLOT = 70; // pixels of height, each of two
const LEFT = 52; // pixels for names

/** A panel whose picture is kept while only the line moves. */
class Overview extends Panel {
  constructor(parent, trace, summary, options) {
    super(parent, options);
    this.trace = trace;
    this.summary = summary;
    this.kept = null;
  }

  draw() {
    const key = `${this.width} ${JSON.stringify(this.theme)}`;
    if (this.kept?.key !== key) this.kept = { key, picture: this.picture(this.width) };
    const context = this.context(this.width, this.height);
    const step = (this.width - LEFT) / this.summary.numSteps;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.kept.picture, LEFT, 0, this.width - LEFT, this.height);
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = this.theme.text;
    for (const [text, y] of this.names()) context.fillText(text, 2, y);
    const x = LEFT + this.state.index * step;
    if (step >= 4) {
      context.fillRect(x, 0, 1, this.height);
      context.fillRect(x + step - 1, 0, 1, this.height);
    } else context.fillRect(x + step / 2 - 1, 0, 2, this.height);
    if (this.options.mark !== null) {
      context.fillStyle = this.theme.accent;
      context.fillRect(LEFT + this.options.mark * step, 0, 2, this.height);
    }
  }

  stepAt(x) {
    const step = Math.floor(((x - LEFT) / (this.width - LEFT)) * this.summary.numSteps);
    return Math.min(Math.max(step, 0), this.summary.numSteps - 1);
  }
}

export class Timeline extends Overview {
  constructor(parent, trace, summary, options) {
    super(parent, trace, summary, {
      ...options,
      name: "timeline",
      title: "Timeline of the sequences",
      label: "A lane for each sequence, from left to right. Click to go to a step.",
    });
    this.lane = Math.max(Math.min(Math.floor(LANE.height / summary.ids.length), LANE.largest), LANE.smallest);
    this.height = Math.max(this.lane * summary.ids.length, 1);
  }

  names() {
    return this.lane < 10 ? [] : this.summary.ids.map((id, i) => [`seq ${id}`, (i + 0.5) * this.lane]);
  }

  /** One pixel for each sequence and step, to be stretched. */
  picture() {
    const { numSteps, ids, phase } = this.summary;
    const picture = new OffscreenCanvas(Math.max(numSteps, 1), Math.max(ids.length, 1));
    const context = picture.getContext("2d");
    const image = context.createImageData(picture.width, picture.height);
    const colours = PHASES.map((name) => (name === "none" ? null : channels(this.theme[name])));
    for (let i = 0; i < phase.length; i += 1) {
      const colour = colours[phase[i]];
      if (colour) image.data.set([...colour, 255], 4 * i);
    }
    context.putImageData(image, 0, 0);
    return picture;
  }

  hit(x, y) {
    const lane = Math.floor(y / this.lane);
    return lane < this.summary.ids.length ? { step: this.stepAt(x), seq: this.summary.ids[lane] } : null;
  }

  count() {
    return this.summary.ids.length;
  }

  item(i) {
    return { step: this.state.index, seq: this.summary.ids[i] };
  }

  words({ step, seq }) {
    return phaseWords(seq, this.summary.phaseOf(seq, step), step);
  }
}

export class Occupancy extends Overview {
  constructor(parent, trace, summary, options) {
    super(parent, trace, summary, {
      ...options,
      name: "occupancy",
      title: "Occupancy",
      label: "Above: pages in use, and free ones that are still cached. Below: tokens of each batch, decodes and prefill.",
    });
    this.height = 2 * PLOT + 10;
  }

  names() {
    return [["pages", PLOT / 2], ["tokens", PLOT * 1.5 + 10]];
  }

  picture(whole) {
    const width = whole - LEFT;
    const ratio = window.devicePixelRatio || 1;
    const picture = new OffscreenCanvas(Math.round(width * ratio), Math.round(this.height * ratio));
    const context = picture.getContext("2d");
    context.scale(ratio, ratio);
    const { used, cachedFree, total, decodes, prefills, maxTokens } = this.summary;
    this.plot(context, width, 0, total, [[used, this.theme.decode], [cachedFree, this.theme.cached]]);
    this.plot(context, width, PLOT + 10, maxTokens, [[decodes, this.theme.decode], [prefills, this.theme.prefill]]);
    return picture;
  }

  /** Stacked columns, one for each step. */
  plot(context, width, top, most, series) {
    const step = width / this.summary.numSteps;
    context.fillStyle = this.theme.empty;
    context.fillRect(0, top, width, PLOT);
    for (let i = 0; i < this.summary.numSteps; i += 1) {
      let y = top + PLOT;
      for (const [values, colour] of series) {
        const height = (values[i] / most) * PLOT;
        context.fillStyle = colour;
        context.fillRect(i * step, y - height, Math.max(step, 1), height);
        y -= height;
      }
    }
  }

  hit(x) {
    return { step: this.stepAt(x) };
  }

  count() {
    return 1;
  }

  item() {
    return { step: this.state.index };
  }

  words({ step }) {
    return occupancyWords(this.summary, step);
  }
}
