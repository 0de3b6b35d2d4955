// Server-sent events, read from the body of an answer.
// From: `fetch`. To: `page.mjs`.

/** The events of a stream as objects, until [DONE]. The bytes may be cut anywhere, also inside a character. */
export async function* eventsIn(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}
