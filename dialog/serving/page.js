"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const turns = byId("turns"), text = byId("text"), send = byId("send"), maps = byId("maps"), hint = byId("hint");
  const key = byId("key"), search = byId("search"), temperature = byId("temperature"), topP = byId("top-p");
  const START = hint.textContent, READ = 49; // messages that are sent; models read fewer turns
  const UNREACHABLE = "No connection to the service. Check that it is running, then try again.";
  let messages = []; // of the chat, as the service reads them
  let running = null; // the AbortController of the response in progress
  let reading = null; // that of the maps in progress

  const headers = () => ({
    "Content-Type": "application/json",
    ...(key ? { Authorization: `Bearer ${key.value}` } : {}),
  });

  async function post(path, body, signal) {
    const request = { method: "POST", headers: headers(), body: JSON.stringify(body), signal };
    const response = await reached(fetch(path, request));
    if (response.ok) return response;
    const problem = await response.json().catch(() => null);
    throw new Error(problem?.error?.message ?? `The service answers with status ${response.status}.`);
  }

  function reached(transfer) { // browsers reject a transfer that fails with a TypeError, each with a text of its own
    return transfer.catch((error) => { throw error instanceof TypeError ? new Error(UNREACHABLE) : error; });
  }

  function show(problem) {
    byId("error").textContent = problem;
    byId("error").hidden = !problem;
    if (problem) byId("error").scrollIntoView({ block: "nearest" });
  }

  function addTurn(role, content = "") {
    const item = document.createElement("li");
    item.className = role;
    const speaker = item.appendChild(document.createElement("span"));
    speaker.className = "speaker";
    speaker.textContent = role === "user" ? "You: " : "Model: ";
    const shown = item.appendChild(document.createElement(role === "user" ? "span" : "button"));
    shown.dir = "auto";
    shown.textContent = content;
    turns.append(item);
    return shown;
  }

  function settings() {
    if (search.value === "greedy") return { temperature: 0 };
    if (search.value !== "sampling") return {};
    return { temperature: Number(temperature.value), top_p: Number(topP.value) };
  }

  async function* pieces(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reached(reader.read());
      if (done) return;
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

  async function answer(line) {
    const before = messages, asked = [...before, { role: "user", content: line }];
    const mine = addTurn("user", line), reply = addTurn("assistant");
    const controller = running = new AbortController();
    let content = "", problem = "";
    send.textContent = "Stop";
    show("");
    try {
      const response = await post("/v1/chat/completions", { messages: asked.slice(-READ), stream: true, ...settings() }, controller.signal);
      for await (const piece of pieces(response)) {
        content += piece;
        reply.textContent = content;
        reply.parentElement.scrollIntoView({ block: "nearest" });
      }
      if (!content.trim()) problem = "The response is empty.";
    } catch (error) {
      if (error.name !== "AbortError") problem = error.message;
      else if (!content.trim()) problem = "Stopped."; // what was generated before stays
    }
    if (running === controller) {
      running = null;
      send.textContent = "Send";
    }
    if (messages !== before) return; // a new chat has begun
    show(problem);
    if (problem) { // the chat is as before
      [mine, reply].forEach((shown) => shown.parentElement.remove());
      text.value ||= line;
      return;
    }
    messages = [...asked, { role: "assistant", content }];
    reply.addEventListener("click", () => explain(reply, asked, content));
    explain(reply, asked, content);
  }

  async function explain(reply, asked, content) {
    reading?.abort();
    const mine = reading = new AbortController();
    document.querySelectorAll(".chosen").forEach((item) => item.classList.remove("chosen"));
    reply.parentElement.classList.add("chosen");
    try {
      const body = { context: asked.slice(-READ).map((message) => message.content), response: content, format: "html" };
      const page = await reached((await post("/attention", body, mine.signal)).text());
      maps.srcdoc = page;
      maps.hidden = false;
      hint.hidden = true;
    } catch (error) {
      if (error.name === "AbortError") return;
      maps.hidden = true;
      hint.hidden = false;
      hint.textContent = error.message;
    }
  }

  byId("line").addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) {
      running.abort();
      return;
    }
    const line = text.value.trim();
    if (!line || !byId("settings").reportValidity()) return;
    text.value = "";
    answer(line);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!running) byId("line").requestSubmit();
  });
  search.addEventListener("change", () => {
    temperature.disabled = topP.disabled = search.value !== "sampling";
  });
  byId("settings").addEventListener("submit", (event) => event.preventDefault());
  byId("new").addEventListener("click", () => {
    running?.abort();
    reading?.abort();
    messages = [];
    turns.replaceChildren();
    maps.hidden = true;
    hint.hidden = false;
    hint.textContent = START;
    show("");
    text.focus();
  });
})();
