const NAMES = JSON.parse(byId("main").dataset.names);
const WORKER = ["tokenizer.js", "search.js", "engine.js", "worker.js"];
const BEAM = { name: "beam", width: 5, candidates: 5, length_penalty: 1, normalisation: "average" };
const PAUSE = 120; // milliseconds after a key before the draft is answered
const NARROW = matchMedia("(max-width: 60rem)"); // as in page.css
const OF_REPLY = "Attention of the reply.";

// ---------------------------------------------------------------- files

const files = new Map();

function read(name) { // bytes of a file: a tag of this page, else beside it; expanded if it is a gzip file
  if (!files.has(name)) files.set(name, readOnce(name));
  return files.get(name);
}

async function readOnce(name) {
  const tag = byId(name);
  if (tag?.type === "text/plain") return new TextEncoder().encode(tag.textContent);
  const bytes = tag ? fromBase64(tag.textContent) : await fetched(name);
  tag?.remove();
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes; // some servers expand gzip files
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(text) {
  return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

async function fetched(name) {
  if (location.protocol === "file:") throw new Error("A page that is opened from disk cannot read the files beside it. Serve this folder (python -m http.server), or export with --single-file.");
  const response = await fetch(name).catch(() => null);
  if (!response?.ok) throw new Error(`${name} cannot be loaded.`);
  return new Uint8Array(await response.arrayBuffer());
}

// ---------------------------------------------------------------- models

class Engine { // the worker with all models
  constructor(scripts) {
    this.tasks = new Map();
    this.count = 0;
    this.worker = new Worker(URL.createObjectURL(new Blob(scripts, { type: "text/javascript" })));
    this.worker.onmessage = ({ data: { id, text, result, error } }) => {
      const task = this.tasks.get(id);
      if (text !== undefined) return task.emit(text);
      this.tasks.delete(id);
      if (error) task.reject(Object.assign(new Error(error.message), { name: error.name }));
      else task.resolve(result);
    };
    this.started = this.start();
    this.worker.onerror = (event) => this.tasks.forEach(({ reject }) => reject(new Error(event.message || "The models have stopped.")));
  }

  ask(task, values, { emit = () => {}, signal } = {}) {
    const id = ++this.count;
    signal?.addEventListener("abort", () => this.worker.postMessage({ task: "cancel", cancels: id }));
    return new Promise((resolve, reject) => {
      this.tasks.set(id, { resolve, reject, emit });
      this.worker.postMessage({ id, task, ...values });
    });
  }

  async start() {
    const [script, wasm] = await Promise.all(["onnxruntime-web.mjs.gz", "onnxruntime-web.wasm.gz"].map(read));
    return this.ask("start", { script, wasm });
  }

  async open(place) {
    const parts = ["json.gz", "encoder.onnx.gz", "step.onnx.gz", "weights.gz"].map((part) => read(`model-${place + 1}.${part}`));
    const [json, encoder, step, weights] = await Promise.all(parts);
    await this.started;
    return this.ask("open", { description: JSON.parse(new TextDecoder().decode(json)), encoder, step, weights });
  }

  async answer(number, context, settings, options) { // a response and its attention
    const answer = await this.ask("respond", { number, context, settings }, options);
    return { ...answer, ...await this.ask("attention", { number, ...answer }, { signal: options.signal }) };
  }
}

// ---------------------------------------------------------------- chat

const turns = byId("turns"), text = byId("text"), send = byId("send"), searches = byId("search");
const readings = NAMES.map((name) => new Reading(name));
byId("readings").append(...readings.map(({ element }) => element));
let engine = null;
let models = []; // that are ready: their numbers, and the searches of their runs
let chats = NAMES.map(() => []); // turns of each model's chat
let shown = NAMES.map(() => null); // the last answer of each
let running = null; // the AbortController of the replies in progress
let drafting = null; // that of the answers to the draft

function say(id, message) {
  byId(id).textContent = message;
  byId(id).hidden = !message;
}

function settingsOf(model, isDraft) {
  const name = searches.value;
  if (name === "greedy" || (isDraft && (name || model.search.name) === "sampling")) return { name: "greedy" };
  if (name === "beam") return BEAM;
  if (name === "sampling") return { name, temperature: Number(byId("temperature").value), top_p: Number(byId("top-p").value), top_k: 0, min_p: 0 };
  return model.search;
}

function addReply(item, place) {
  const reply = make("button", { type: "button", dir: "auto", ariaPressed: "false" });
  const speaker = make("span", { className: NAMES.length > 1 ? "name" : "speaker" }, NAMES.length > 1 ? NAMES[place] : "Model: ");
  item.append(make("div", {}, speaker, reply));
  return reply;
}

function choose(place, reply, answer) { // show the attention of a reply
  turns.querySelectorAll(`[data-model="${place}"]`).forEach((other) => { other.ariaPressed = String(other === reply); });
  shown[place] = answer;
  readings[place].show(answer, OF_REPLY);
}

async function answer(line) {
  drafting?.abort();
  const controller = running = new AbortController();
  const question = make("li", { className: "user" }, make("span", { className: "speaker" }, "You: "), make("span", { dir: "auto" }, line));
  const item = make("li", { className: "replies", ariaBusy: "true" });
  turns.append(question, item);
  item.scrollIntoView({ block: "nearest" });
  send.textContent = "Stop";
  say("error", "");
  const before = chats;
  try {
    const replies = await Promise.all(models.map(async (model, place) => {
      const reply = addReply(item, place), context = [...before[place], line];
      reply.dataset.model = place;
      const result = await engine.answer(model.number, context, settingsOf(model), { signal: controller.signal, emit: (part) => { reply.textContent = part; } });
      reply.textContent = result.text.trim() ? result.text : "(empty reply)";
      reply.addEventListener("click", () => choose(place, reply, result));
      return { reply, result };
    }));
    if (running !== controller) return;
    replies.forEach(({ reply, result }, place) => choose(place, reply, result));
    chats = before.map((chat, place) => [...chat, line, replies[place].result.text]);
    item.ariaBusy = "false";
  } catch (error) {
    if (running !== controller) return; // a new chat has begun
    controller.abort();
    question.remove();
    item.remove();
    text.value ||= line;
    if (error.name !== "AbortError") say("error", error.message);
  }
  running = null;
  send.textContent = "Send";
  item.scrollIntoView({ block: "nearest" });
  if (text.value) draft();
}

async function draft() { // answer what has been typed so far, outside of the chat
  drafting?.abort();
  const controller = drafting = new AbortController();
  const line = text.value;
  await new Promise((done) => setTimeout(done, PAUSE));
  if (controller.signal.aborted || running || !models.length) return;
  await Promise.all(models.map(async (model, place) => {
    if (!line.trim() || !byId("live").checked) {
      if (shown[place]) readings[place].show(shown[place], OF_REPLY);
      else readings[place].clear();
      return;
    }
    const result = await engine.answer(model.number, [...chats[place], line], settingsOf(model, true), { signal: controller.signal });
    if (controller.signal.aborted) return;
    readings[place].show(result, "Reply so far, while you type:");
    if (place === 0 && NARROW.matches) readings[0].element.scrollIntoView({ block: "nearest" });
  })).catch((error) => { if (error.name !== "AbortError") say("error", error.message); });
}

byId("line").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) {
    running.abort();
    return;
  }
  const line = text.value;
  if (!line.trim() || !models.length || !byId("settings").reportValidity()) return;
  text.value = "";
  answer(line);
});
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) byId("line").requestSubmit();
});
text.addEventListener("input", draft);
byId("live").addEventListener("change", draft);
searches.addEventListener("change", () => {
  byId("sampling").hidden = searches.value !== "sampling";
  draft();
});
byId("settings").addEventListener("submit", (event) => event.preventDefault());
byId("new").addEventListener("click", () => {
  running?.abort();
  drafting?.abort();
  running = null;
  send.textContent = "Send";
  chats = NAMES.map(() => []);
  shown = NAMES.map(() => null);
  turns.replaceChildren();
  readings.forEach((reading) => reading.clear());
  say("error", "");
  text.focus();
});

async function load() {
  const needed = { WebAssembly: globalThis.WebAssembly, DecompressionStream: globalThis.DecompressionStream, "web workers": globalThis.Worker };
  const missing = Object.keys(needed).filter((name) => !needed[name]);
  if (missing.length) throw new Error(`This browser lacks ${missing.join(", ")}, which the models need. Use a current Firefox, Chrome, Edge or Safari, with WebAssembly allowed.`);
  say("status", NAMES.length > 1 ? "Loading the models …" : "Loading the model …");
  const scripts = await Promise.all(WORKER.map(read));
  engine = new Engine(scripts);
  models = await Promise.all(NAMES.map((_, place) => engine.open(place)));
  text.disabled = send.disabled = false;
  say("status", "Ready. Everything runs in this page; nothing you type leaves it.");
  if (text.value) draft();
}

load().catch((error) => {
  say("status", "");
  say("error", error.message);
});
