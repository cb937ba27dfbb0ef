// Requests to the service; every error has a text for people.

const UNREACHABLE = "No connection to the service. Check that it is running, then try again.";
const KEY = "dialog-key"; // of this tab only

const keyOf = () => byId("key")?.value ?? "";

async function request(path, body, signal) {
  const key = keyOf();
  const response = await reached(fetch(path, {
    method: body ? "POST" : "GET",
    headers: { ...(body ? { "Content-Type": "application/json" } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    body: body && JSON.stringify(body),
    signal,
  }));
  if (response.ok) return response;
  const problem = await response.json().catch(() => null);
  throw Object.assign(new Error(problem?.error?.message ?? `The service answers with status ${response.status}.`), { status: response.status });
}

function reached(transfer) { // browsers reject a transfer that fails with a TypeError, each with a text of its own
  return transfer.catch((error) => { throw error instanceof TypeError ? new Error(UNREACHABLE) : error; });
}

async function* pieces(response) { // texts of a stream
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reached(reader.read());
    if (done) throw new Error(UNREACHABLE);
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const content = JSON.parse(data);
      if (content.error) throw new Error(content.error.message);
      yield content.choices[0]?.delta?.content ?? "";
    }
  }
}

const MOST_TURNS = 49; // that are sent; models read fewer
const MOST_CHARACTERS = 12000; // of them together: the service takes 64 KiB, and a character has up to 4 bytes

function recent(context) { // the last turns that a request can hold
  let characters = 0;
  const from = context.findLastIndex((turn, place) => {
    characters += turn.length;
    return context.length - place > MOST_TURNS || characters > MOST_CHARACTERS;
  });
  return context.slice(Math.min(from + 1, context.length - 1));
}

function chatRequest(model, context, more) {
  const turns = recent(context);
  const messages = turns.map((content, place) => ({ role: (turns.length - place) % 2 ? "user" : "assistant", content }));
  return { model, messages, ...more };
}

async function respond(model, context, settings, { signal, emit = () => {} }) { // the text of a reply; emit receives what there is of it
  const response = await request("/v1/chat/completions", chatRequest(model, context, { ...settings, stream: true }), signal);
  let text = "";
  for await (const piece of pieces(response)) {
    text += piece;
    emit(text);
  }
  return text;
}

async function candidatesOf(model, context, settings, count) { // best first
  const { choices } = await (await request("/v1/chat/completions", chatRequest(model, context, { ...settings, n: count }))).json();
  return choices.map(({ message, score }) => ({ text: message.content, score }));
}

async function attentionOf(model, context, response) { // as Reading.show() takes it, with what the model has not read
  const body = { model, context: recent(context), response };
  const reading = await (await request("/attention", body)).json();
  const maps = reading.maps
    .filter(({ side, columns }) => side === "target" && columns === "source")
    .map(({ name, weights }) => ({ name, heads: weights }));
  if (reading.rollout) maps.unshift({ name: "all layers", heads: [reading.rollout] });
  return {
    rows: labelledPieces(reading.response_tokens, reading.response_kinds),
    columns: labelledPieces(reading.context_tokens, reading.context_kinds),
    maps,
    unread: context.slice(0, context.length - body.context.length).concat(reading.unread_turns),
    dropped: reading.dropped_tokens,
  };
}

async function allMapsOf(model, context, response) { // a page
  return (await request("/attention", { model, context: recent(context), response, format: "html" })).text();
}

// What people read of tokens, with their places [first, end]: a label writes a byte of a character that tokens share as \xe4.
const NAMES_OF_SPECIAL = { "<self>": "self", "<other>": "other", "</s>": "end", "<s>": "begin", "<unk>": "unknown" };

function labelledPieces(labels, kinds) {
  const shown = [];
  for (let first = 0, end; first < labels.length; first = end) {
    end = first + 1;
    let text = labels[first];
    while (text.includes("\\x")) {
      const whole = decoded(labels.slice(first, end).join(""));
      if (whole !== null) text = whole;
      else if (end < labels.length && labels[end].includes("\\x")) end++;
      else break;
    }
    const special = ["role", "start", "end"].includes(kinds[first]) ? NAMES_OF_SPECIAL[text] ?? text : "";
    shown.push({ text: text.replaceAll("▁", " "), special, first, end });
  }
  return shown;
}

function decoded(label) { // null if its bytes are not whole characters
  const bytes = label.split(/(\\x[0-9a-f]{2})/).flatMap((part) => (/^\\x[0-9a-f]{2}$/.test(part) ? [parseInt(part.slice(2), 16)] : [...new TextEncoder().encode(part)]));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}
