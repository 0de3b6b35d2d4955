// Colours: one for each sequence, and those of the theme, which the style sheet keeps.
// From: a sequence's id; the page's CSS variables. To: everything that draws.

/** Neighbouring ids get hues far apart (the golden angle). */
export function colourOf(seq, dark, alpha = 1) {
  const hue = (seq * 137.508 + 200) % 360;
  const light = dark ? 58 + (seq % 3) * 5 : 44 + (seq % 3) * 5;
  return `hsl(${hue.toFixed(0)} ${dark ? 58 : 62}% ${light}% / ${alpha})`;
}

/** The theme's colours as they are now. */
export function themeOf(element) {
  const style = getComputedStyle(element);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["text", "panel", "muted", "line", "empty", "cached", "accent", "queued", "held", "prefill", "decode", "idle", "preempted"];
  const theme = Object.fromEntries(names.map((name) => [name, get(name)]));
  return { ...theme, dark: get("scheme") === "dark" };
}

/** "#rrggbb" → [r, g, b]. */
export function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
