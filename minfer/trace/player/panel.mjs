// A panel: a canvas that draws the state, says what is under the pointer, and can be walked through with the up and down keys.
// From: `view.mjs` gives it states. To: the line of explanation, by `explain`.

import { themeOf } from "./colours.mjs";

export const LABEL_WIDTH = 64; // pixels for the name of a line

export class Panel {
  /** options: {title, label, explain, seek}; label is what the panel shows, in a sentence. */
  constructor(parent, options) {
    this.options = options;
    const section = document.createElement("section");
    section.className = `panel ${options.name}`;
    const heading = document.createElement("h3");
    heading.textContent = options.title;
    this.note = document.createElement("p");
    this.note.className = "note";
    this.note.textContent = options.label;
    this.box = document.createElement("div");
    this.box.className = "box";
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `${options.title}. ${options.label}`);
    this.box.append(this.canvas);
    section.append(heading, this.note, this.box);
    parent.append(section);
    this.section = section;
    this.at = -1; // the item that the keys have reached
    this.hovered = null;
    this.listen();
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => {
      this.point(this.hit(event.offsetX, event.offsetY));
    });
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => {
      const item = this.hit(event.offsetX, event.offsetY);
      if (item?.step !== undefined) this.options.seek(item.step);
      else this.point(item);
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      const count = this.count();
      if (!count) return;
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : -1) + count) % count;
      this.point(this.item(this.at));
    });
    this.canvas.addEventListener("blur", () => this.point(null));
  }

  /** Show what an item is, and mark it. */
  point(item) {
    if (item === null && this.hovered === null) return;
    const key = item === null ? null : JSON.stringify(item);
    if (key === this.hoveredKey) return;
    this.hovered = item;
    this.hoveredKey = key;
    this.options.explain(item === null ? null : this.words(item));
    this.paint();
  }

  show(state) {
    this.state = state;
    if (this.hovered !== null) this.options.explain(this.words(this.hovered));
    this.paint();
  }

  /** A clean canvas of so many CSS pixels, sharp on every screen → its context. */
  context(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  get width() {
    return Math.max(this.box.clientWidth, 120);
  }

  paint() {
    if (!this.state) return;
    this.theme = themeOf(this.section);
    this.draw();
  }
}

/** A text that can be read on any colour: letters with an edge of the background's. */
export function write(context, text, x, y, theme) {
  context.strokeStyle = theme.panel;
  context.lineWidth = 2.5;
  context.lineJoin = "round";
  context.strokeText(text, x, y);
  context.fillStyle = theme.text;
  context.fillText(text, x, y);
}

/** A rectangle's outline, inside it. */
export function outline(context, x, y, width, height, colour, thickness = 2) {
  context.strokeStyle = colour;
  context.lineWidth = thickness;
  context.strokeRect(x + thickness / 2, y + thickness / 2, width - thickness, height - thickness);
}
