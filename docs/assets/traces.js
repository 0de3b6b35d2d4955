// The players of a page, in their frames, get the page's own colours: those that its reader has chosen.
// From: the theme, which notes them at the body. To: minfer/trace/player/player.mjs, by messages.

(() => {
  const scheme = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light");
  const tell = (player) => player.postMessage({ scheme: scheme() }, "*");
  const players = () => [...document.querySelectorAll("iframe.trace")].map((frame) => frame.contentWindow);
  window.addEventListener("message", (event) => {
    if (event.data === "minfer-player" && players().includes(event.source)) tell(event.source);
  });
  new MutationObserver(() => players().forEach(tell)).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
})();
