// The page: chats with one or more models side by side, and blind ones with votes.

const SETTINGS = "dialog-settings";
const FIELDS = ["search", "temperature", "top-k", "top-p", "length", "rater"];
const WIDE = matchMedia("(min-width: 60rem)"); // as in page.css
const SIDES = { a: "A", b: "B" };
const CHOICE_OF_KEY = { 1: "a", 0: "tie", 2: "b" };

const turns = byId("turns"), text = byId("text"), send = byId("send"), votes = byId("vote");
let runs = []; // as the service lists them
let keepsVotes = false;
let silent = new Set(); // names of the models that do not answer
let chats = storedChats();
let chat = newChat();
let removed = null; // the last chat that was deleted, and its place
let running = null; // the AbortController of the replies in progress

const isHidden = (one) => one.blind && !one.revealed; // whether the names are
const randomly = (list) => list.map((item) => [Math.random(), item]).sort(([one], [other]) => one - other).map(([, item]) => item);
const answering = () => runs.map(({ name }) => name).filter((name) => !silent.has(name));

function say(id, message) {
  byId(id).textContent = message;
  byId(id).hidden = !message;
}

// ---------------------------------------------------------------- settings

function settings() {
  const search = byId("search").value, length = Number(byId("length").value);
  const number = (id) => Number(byId(id).value);
  const sampling = search === "sampling" ? { temperature: number("temperature"), top_k: number("top-k"), top_p: number("top-p") } : {};
  return { ...(search ? { search } : {}), ...sampling, ...(length ? { max_tokens: length } : {}) };
}

function loadSettings() {
  try {
    const stored = JSON.parse(localStorage.getItem(SETTINGS)) ?? {};
    for (const id of FIELDS) if (isText(stored[id])) byId(id).value = stored[id];
    if (!byId("search").value) byId("search").value = "";
    byId("attend").checked = typeof stored.attend === "boolean" ? stored.attend : WIDE.matches;
    silent = new Set(Array.isArray(stored.silent) ? stored.silent.filter(isText) : []);
  } catch {
    byId("attend").checked = WIDE.matches;
  }
  showSettings();
}

function showSettings() {
  const search = byId("search"), isSampling = search.value === "sampling";
  byId("sampling").hidden = !isSampling;
  byId("sampling").disabled = !isSampling;
  const length = byId("length").value ? `, at most ${byId("length").value} tokens` : "";
  byId("chosen").textContent = `${search.selectedOptions[0].text}${isSampling ? `, temperature ${byId("temperature").value}` : ""}${length}`;
}

function saveSettings() {
  showSettings();
  const stored = Object.fromEntries(FIELDS.map((id) => [id, byId(id).value]));
  try {
    localStorage.setItem(SETTINGS, JSON.stringify({ ...stored, attend: byId("attend").checked, silent: [...silent] }));
  } catch { /* no storage: they hold for this page */ }
}

// ---------------------------------------------------------------- list of chats, and models

function save() { // the open chat, first in the list
  if (chat.exchanges.length) {
    chats = [chat, ...chats.filter(({ id }) => id !== chat.id)];
    history.replaceState(null, "", `#chat=${chat.id}`);
  }
  if (!storeChats(chats)) say("error", "This browser keeps no more chats: delete some, or download this one before you leave.");
  showList();
}

function showList() {
  byId("list").replaceChildren(...chats.map((one) => {
    const opens = button(nameOf(one), () => open(one), "entry");
    opens.dir = "auto";
    if (one.id === chat.id) opens.ariaCurrent = "true";
    return make("li", {}, opens);
  }));
  const isEmpty = !chat.exchanges.length;
  byId("tools").hidden = isEmpty;
  byId("welcome").hidden = !isEmpty;
  byId("name").value = isEmpty ? "" : nameOf(chat);
  byId("undo").hidden = !removed;
}

function factsOf({ facts, results, search, removed: isGone }) {
  const entries = [...facts, ["search", search], ...results].map(([label, value]) => make("div", {}, make("dt", {}, label), make("dd", { dir: "auto" }, value)));
  const gone = isGone ? [make("p", { className: "error" }, "The folder of this run has been removed. It answers until the service ends.")] : [];
  return [make("dl", { className: "facts" }, ...entries), ...gone];
}

function showModels() {
  byId("models").replaceChildren(...runs.map((run) => {
    const answers = make("input", { type: "checkbox", ariaLabel: run.name, checked: !silent.has(run.name), hidden: runs.length < 2 });
    answers.addEventListener("change", () => {
      if (answers.checked) silent.delete(run.name);
      else silent.add(run.name);
      saveSettings();
      showModels();
    });
    return make("li", {}, make("label", {}, answers, " ", named(run.name)), make("details", {}, make("summary", {}, "Facts"), ...factsOf(run)));
  }));
  const isPair = answering().length > 1;
  byId("new-blind").disabled = !keepsVotes || !isPair;
  byId("why-no-blind").textContent = !keepsVotes ? "Blind votes: start the service with --votes FILE." : isPair ? "" : "Blind votes need two models that answer.";
  byId("why-no-blind").hidden = runs.length < 2 || !byId("new-blind").disabled;
  byId("new-blind").hidden = runs.length < 2;
  showWelcome();
}

function showWelcome() {
  const names = answering(), title = chat.blind ? "Two models, names hidden" : names.length ? `Talk to ${names.join(" and ")}` : "Choose a model that answers";
  const known = [...new Set(runs.flatMap(({ openings }) => openings))].slice(0, 8);
  byId("greeting").textContent = title;
  byId("explanation").textContent = chat.blind
    ? "Write a line. Two replies appear, in random order; choose the better one, and the chat continues with it. Your votes are kept by the service."
    : `${names.length > 1 ? "All models answer the same line, each in a chat of its own." : "The model answers your line."} “Attention” below a reply shows where the model looked while it wrote.`;
  byId("openings").replaceChildren(...known.map((line) => {
    const opening = button(line, () => answer(line));
    opening.dir = "auto";
    return make("li", {}, opening);
  }));
  byId("examples").hidden = !known.length;
  const shown = chat.blind ? [] : runs.filter(({ name }) => names.includes(name));
  byId("about").replaceChildren(...shown.map((run) => make("section", {}, make("h3", {}, named(run.name)), ...factsOf(run))));
  byId("rating").hidden = !isHidden(chat);
  const last = chat.exchanges.findLast(({ choice }) => choice);
  byId("reveal").hidden = !last;
}

// ---------------------------------------------------------------- a chat

function open(one) {
  running?.abort();
  running = null;
  send.textContent = "Send";
  chat = one;
  say("error", "");
  closeList();
  votes.hidden = true;
  document.querySelector("main").append(votes); // out of the turns
  turns.replaceChildren();
  chat.exchanges.forEach((_, place) => showExchange(place));
  showList();
  showWelcome();
  showVote();
  history.replaceState(null, "", chat.exchanges.length ? `#chat=${chat.id}` : location.pathname);
  turns.lastChild?.scrollIntoView();
}

function closeList() {
  document.body.classList.remove("lists");
  byId("show-list").ariaExpanded = "false";
}

function labelOf(place, model) {
  const side = chat.exchanges[place].replies.findIndex((reply) => reply.model === model);
  return isHidden(chat) ? Object.values(SIDES)[side] : model;
}

function showExchange(place, models = null) { // return the cards by model; `models` are those whose replies are still to come
  const { line, replies, choice, kept } = chat.exchanges[place];
  const names = models ?? replies.map(({ model }) => model);
  const cards = new Map(names.map((model, side) => [model, new ReplyCard(isHidden(chat) ? Object.values(SIDES)[side] : model, {
    isOpen: () => byId("attend").checked && place === chat.exchanges.length - 1,
    choose: place === chat.exchanges.length - 1 && !chat.blind ? (candidate) => replace(place, model, candidate) : null,
  })]));
  const question = make("p", { className: "user" }, make("span", { className: "unseen" }, "You: "), make("span", { dir: "auto" }, line));
  const grid = make("div", { className: "replies" }, ...[...cards.values()].map(({ element }) => element));
  turns.append(make("li", {}, question, grid));
  for (const { model, text: reply } of models ? [] : replies) complete(place, cards.get(model), model, reply);
  if (choice) {
    const winner = choice === "tie" ? "Tie" : `${isHidden(chat) ? SIDES[choice] : replies["ab".indexOf(choice)].model} was better`;
    turns.lastChild.append(make("p", { className: "caption verdict" }, `Your vote: ${winner}. The chat continued with ${labelOf(place, kept)}.`));
  }
  return cards;
}

function complete(place, card, model, reply) {
  card.finish(reply);
  if (!isHidden(chat) && runs.some(({ name }) => name === model)) card.offer(model, contextOf(chat, model, place), reply, settings);
}

function replace(place, model, candidate) {
  chat.exchanges[place].replies.find((reply) => reply.model === model).text = candidate;
  save();
  const old = turns.children[place];
  showExchange(place);
  old.replaceWith(turns.lastChild);
}

async function answer(line) {
  if (running || !byId("settings").reportValidity()) return;
  const asked = chat, models = isHidden(asked) ? randomly(answering()).slice(0, 2) : answering();
  if (models.length < (isHidden(asked) ? 2 : 1)) {
    byId("text").value = line;
    say("error", "Choose a model that answers, in the list of models.");
    return;
  }
  document.querySelector("main").append(votes);
  const last = asked.exchanges.at(-1);
  if (isHidden(asked) && last) last.kept ??= randomly(last.replies)[0].model; // no vote
  const exchange = { line, replies: [], choice: null, kept: null };
  asked.exchanges.push(exchange);
  const place = asked.exchanges.length - 1, controller = running = new AbortController();
  turns.children[place - 1]?.querySelectorAll('.tools [aria-expanded="true"]').forEach((opened) => opened.click()); // room for the new replies
  const cards = showExchange(place, models);
  text.value = "";
  byId("welcome").hidden = true;
  say("error", "");
  showVote();
  send.textContent = "Stop";
  turns.lastChild.scrollIntoView();
  const found = await Promise.all(models.map((model) => reply(asked, place, model, cards.get(model), controller)));
  if (running === controller) {
    running = null;
    send.textContent = "Send";
  }
  exchange.replies = found.filter(({ problem }) => !problem).map(({ model, text: content, settings: used }) => ({ model, text: content, settings: used }));
  if (!exchange.replies.length) { // the chat is as before
    asked.exchanges.splice(place, 1);
    if (chat !== asked) return;
    turns.lastChild.remove();
    text.value ||= line;
    say("error", found[0].problem);
    showList();
    showWelcome();
    showVote();
    byId("error").scrollIntoView({ block: "nearest" });
    return;
  }
  if (chat === asked) {
    save();
    for (const { model, text: content, problem } of found) {
      if (problem) cards.get(model).fail(problem, () => again(place, model, cards.get(model)));
      else complete(place, cards.get(model), model, content);
    }
    byId("status").textContent = exchange.replies.map(({ model, text: content }) => `${labelOf(place, model)}: ${content}`).join(" — ");
    showVote(true);
  } else if (chats.includes(asked)) storeChats(chats);
}

async function reply(asked, place, model, card, controller) { // its text or its problem
  let content = "";
  const used = settings();
  card.wait();
  try {
    const emit = isHidden(asked) ? undefined : (part) => {
      content = part;
      card.show(part);
    };
    return { model, text: await respond(model, contextOf(asked, model, place), used, { signal: controller.signal, emit }), settings: used };
  } catch (error) {
    if (error.name !== "AbortError") return { model, problem: error.message };
    return content.trim() ? { model, text: content, settings: used } : { model, problem: "Stopped." }; // what was generated before stays
  }
}

async function again(place, model, card) { // one of several replies that has failed
  if (running) return;
  const asked = chat, controller = running = new AbortController();
  send.textContent = "Stop";
  const found = await reply(asked, place, model, card, controller);
  if (running === controller) {
    running = null;
    send.textContent = "Send";
  }
  if (chat !== asked) return;
  if (found.problem) return card.fail(found.problem, () => again(place, model, card));
  const { replies } = asked.exchanges[place], left = card.element.previousSibling === null;
  replies.splice(left ? 0 : replies.length, 0, { model, text: found.text, settings: found.settings });
  save();
  complete(place, card, model, found.text);
  showVote(true);
}

// ---------------------------------------------------------------- votes

function awaitsVote() {
  const last = chat.exchanges.at(-1);
  return isHidden(chat) && !running && last && last.replies.length === 2 && !last.choice;
}

function showVote(isNew = false) {
  votes.hidden = !awaitsVote();
  if (!votes.hidden) turns.lastChild.append(votes);
  if (!votes.hidden && isNew && !text.value) votes.focus({ preventScroll: true }); // its keys work outside of fields
}

async function vote(choice) {
  const asked = chat, place = chat.exchanges.length - 1, exchange = chat.exchanges[place];
  const { replies } = exchange, [a, b] = replies.map(({ model }) => model);
  votes.disabled = true;
  try {
    await request("/votes", {
      models: [a, b], context: recent(contextOf(chat, a, place)), responses: replies.map(({ text: content }) => content), choice, rater: byId("rater").value.trim(), chat: chat.id,
      settings: replies.every((reply) => reply.settings) ? replies.map((reply) => reply.settings) : null, // of older chats they are unknown
    });
    exchange.choice = choice;
    exchange.kept = { a, b }[choice] ?? randomly([a, b])[0];
    if (chat === asked) {
      save();
      open(chat);
      text.focus();
    }
  } catch (error) {
    say("error", error.message);
  }
  votes.disabled = false;
}

function reveal() {
  const counts = new Map();
  for (const { replies, choice } of chat.exchanges.filter((one) => one.choice)) {
    const winner = choice === "tie" ? "ties" : replies["ab".indexOf(choice)].model;
    counts.set(winner, (counts.get(winner) ?? 0) + 1);
  }
  chat.revealed = true;
  save();
  open(chat);
  byId("status").textContent = "";
  say("tally", `Your votes: ${[...counts].map(([name, count]) => `${name} ${count}`).join(", ")}.`);
  scrollTo(0, 0);
}
