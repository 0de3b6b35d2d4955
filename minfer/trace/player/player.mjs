// The player: buttons, slider and keys that move through one trace, or through two side by side.
// From: the JSON in the page, written by minfer/trace/page.py. To: the views.

import { chapterLink, element, View } from "./view.mjs";

const data = (id) => JSON.parse(document.getElementById(id).textContent);
const SPEEDS = [1, 2, 5, 10, 30, 60]; // steps a second
const HINT = "Point at anything, or reach it with Tab and the up and down keys, to read what it is. "
  + "Left and right step, space plays, Home and End jump.";

class Player {
  constructor() {
    const { traces, labels, chapters, difference } = data("minfer-page");
    this.difference = difference;
    this.buttons();
    this.explanation = document.getElementById("explanation");
    const parent = document.getElementById("views");
    parent.classList.toggle("two", traces.length > 1);
    const common = {
      chapters,
      mark: difference ? difference.index : null,
      explain: (words) => this.explain(words, chapters),
      seek: (index) => this.go(index),
    };
    this.views = traces.map((trace, i) => new View(parent, { ...common, trace, label: labels[i] }));
    this.length = Math.max(...this.views.map((view) => view.length));
    this.slider.max = this.length - 1;
    this.index = -1;
    this.explain(null, chapters);
    this.showDifference();
    if (!this.length) {
      this.explain({ text: "This trace has no steps: nothing ran while it was recorded." }, chapters);
      return;
    }
    document.addEventListener("keydown", (event) => this.key(event));
    const redraw = () => this.show(this.index);
    new ResizeObserver(redraw).observe(parent);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    this.go(Number(location.hash.slice(1)) || 0); // page.html#20 opens at that entry, page.html#autoplay plays
    if (location.hash === "#autoplay" && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.toggle();
    this.framed();
  }

  /** In a frame of another page: no title, and the colours that the page around it says. */
  framed() {
    document.documentElement.classList.toggle("framed", window !== window.parent);
    window.addEventListener("message", (event) => {
      if (event.source === window.parent && ["light", "dark"].includes(event.data?.scheme)) this.paint(event.data.scheme);
    });
    window.parent.postMessage("minfer-player", "*"); // ready to be told
  }

  buttons() {
    const get = (id) => document.getElementById(id);
    this.slider = get("slider");
    this.playing = null;
    this.playButton = get("play");
    const actions = {
      first: () => this.go(0),
      back: () => this.go(this.index - 1),
      play: () => this.toggle(),
      forward: () => this.go(this.index + 1),
      last: () => this.go(this.length - 1),
      theme: () => this.theme(),
    };
    for (const [id, action] of Object.entries(actions)) get(id).addEventListener("click", action);
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.speed = get("speed");
    for (const speed of SPEEDS) this.speed.append(new Option(`${speed} steps/s`, speed, speed === 5, speed === 5));
  }

  /** To an entry of the trace; drawn with the next frame, so that a dragged slider never waits. */
  go(index) {
    const to = Math.min(Math.max(index, 0), this.length - 1);
    if (to === this.index) return;
    this.index = to;
    this.slider.value = to;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.show(this.index);
    });
  }

  show(index) {
    for (const view of this.views) view.show(index);
    const position = `${index + 1} of ${this.length}`;
    document.getElementById("position").textContent = position;
    this.slider.setAttribute("aria-valuetext", `${position}. ${this.views[0].status.textContent}`);
    if (!this.playing) document.getElementById("spoken").textContent = this.views.map((view) => view.status.textContent).join(" ");
  }

  toggle() {
    if (this.playing) {
      cancelAnimationFrame(this.playing.frame);
      this.playing = null;
    } else {
      if (this.index === this.length - 1) this.go(0);
      this.playing = { last: null, due: 0, frame: 0 };
      this.tick();
    }
    this.playButton.textContent = this.playing ? "Pause" : "Play";
    this.playButton.setAttribute("aria-pressed", String(Boolean(this.playing)));
  }

  /** As many steps as have come due since the last picture, from wherever somebody has moved to meanwhile. */
  tick() {
    const playing = this.playing;
    playing.frame = requestAnimationFrame((now) => {
      playing.due += ((now - (playing.last ?? now)) / 1000) * Number(this.speed.value);
      playing.last = now;
      const steps = Math.floor(playing.due);
      playing.due -= steps;
      this.go(this.index + steps);
      if (this.index === this.length - 1) this.toggle();
      else this.tick();
    });
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || ["SELECT", "A"].includes(event.target.tagName)) return;
    const onButton = event.target.tagName === "BUTTON";
    const actions = {
      ArrowLeft: () => this.go(this.index - 1),
      ArrowRight: () => this.go(this.index + 1),
      PageUp: () => this.go(this.index - 10),
      PageDown: () => this.go(this.index + 10),
      Home: () => this.go(0),
      End: () => this.go(this.length - 1),
      ...(onButton ? {} : { " ": () => this.toggle() }),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** One sentence, and the chapter that says more. */
  explain(words, chapters) {
    if (words === null) this.explanation.replaceChildren(HINT);
    else this.explanation.replaceChildren(`${words.text} `, chapterLink(chapters[words.topic]));
  }

  showDifference() {
    const box = document.getElementById("difference");
    if (this.views.length < 2) return;
    box.hidden = false;
    if (!this.difference) {
      box.textContent = "The two traces agree from beginning to end.";
      return;
    }
    box.append(`The first difference: ${this.difference.message} `);
    element("button", "", box, "Go to it").addEventListener("click", () => this.go(this.difference.index));
  }

  theme() {
    const dark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
    this.paint(dark ? "light" : "dark");
  }

  paint(scheme) {
    document.documentElement.dataset.theme = scheme;
    if (this.length) this.show(this.index);
  }
}

window.minferPlayer = new Player();
