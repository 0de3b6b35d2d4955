// The page at /: a chat with the model, and beside it what the engine is doing.
// From: the visitor, and GET /engine/state. To: the API under /v1, and `live.mjs`.

import { eventsIn } from "./events.mjs";
import { Live } from "./live.mjs";

const EVERY = 400; // ms between two looks at the engine

const $ = (id) => document.getElementById(id);
const messages = []; // what was said, as the API wants it
let running = null; // the AbortController of the request under way

function headers() {
  const key = $("key").value;
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
}

function bubble(kind, text = "") {
  const item = document.createElement("li");
  item.className = kind;
  item.textContent = text;
  $("messages").append(item);
  item.scrollIntoView({ block: "nearest" });
  return item;
}

/** The request for what is in the form. */
function request(text) {
  const common = { stream: true, stream_options: { include_usage: true }, max_tokens: Number($("tokens").value), temperature: Number($("temperature").value) };
  if ($("mode").value === "completion") return ["/v1/completions", { ...common, prompt: text }];
  return ["/v1/chat/completions", { ...common, messages: [...messages, { role: "user", content: text }] }];
}

/** Send one request and give each event of its stream to `take`. */
async function stream([path, body], signal, take) {
  const answer = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  for await (const event of eventsIn(answer.body)) {
    if (event.error) throw new Error(event.error.message);
    take(event);
  }
}

async function send(text) {
  const asked = request(text);
  bubble("user", text);
  const item = bubble("assistant");
  const begun = performance.now();
  let first = null;
  let usage = null;
  running = new AbortController();
  const { signal } = running;
  const others = Array.from({ length: Number($("copies").value) - 1 }, () => stream(asked, signal, () => {}).catch(() => {}));
  try {
    await stream(asked, signal, (event) => {
      usage = event.usage ?? usage;
      const choice = event.choices[0];
      const piece = choice?.delta?.content ?? choice?.text ?? "";
      if (piece && first === null) first = performance.now();
      item.textContent += piece;
    });
  } catch (error) {
    if (error.name !== "AbortError") bubble("error", error.message);
  }
  if (asked[0].includes("chat") && item.textContent) {
    messages.push({ role: "user", content: text }, { role: "assistant", content: item.textContent });
  }
  if (usage && first !== null) {
    const seconds = (performance.now() - first) / 1000;
    const speed = usage.completion_tokens > 1 && seconds > 0 ? `, then ${((usage.completion_tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
    $("timing").textContent = `${usage.prompt_tokens} prompt tokens, ${usage.completion_tokens} generated; the first after ${(first - begun).toFixed(0)} ms${speed}.`;
  }
  await Promise.all(others);
}

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("text").value;
  if (running || !text.trim()) return;
  $("text").value = "";
  $("send").disabled = true;
  $("stop").disabled = false;
  await send(text);
  running = null;
  $("send").disabled = false;
  $("stop").disabled = true;
});
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  $("ask").requestSubmit();
});
$("stop").addEventListener("click", () => running?.abort());
$("reset").addEventListener("click", () => {
  messages.length = 0;
  $("messages").replaceChildren();
});

const live = new Live($("live"), (said) => {
  $("explanation").textContent = said?.text ?? "";
});
$("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  live.paint();
});

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch("/engine/state", { headers: headers() });
      const content = await answer.json();
      if (!answer.ok) throw new Error(content.error.message);
      $("status").textContent = live.show(content);
    } catch (error) {
      $("status").textContent = `The engine's state cannot be had: ${error.message}`;
    }
  }
  setTimeout(look, EVERY);
}

async function name() {
  const answer = await fetch("/v1/models", { headers: headers() });
  if (answer.ok) $("model").textContent = (await answer.json()).data.map((each) => each.id).join(", ");
}

$("key").addEventListener("change", name);
name();
look();
