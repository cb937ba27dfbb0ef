// Controls of the page, and its start.

function add(one) {
  say("tally", "");
  open(one);
  if (WIDE.matches) text.focus();
}

function remove() {
  removed = { chat, place: chats.indexOf(chat) };
  chats = chats.filter((one) => one !== chat);
  storeChats(chats);
  add(newChat());
  byId("undo").focus();
}

function restore() {
  chats.splice(removed.place, 0, removed.chat);
  storeChats(chats);
  const { chat: restored } = removed;
  removed = null;
  open(restored);
}

async function copyLink() {
  const link = await linkOf(chat);
  const isCopied = await navigator.clipboard?.writeText(link).then(() => true, () => false); // only of a secure address
  byId("link").value = link;
  byId("link").parentElement.hidden = Boolean(isCopied);
  byId("status").textContent = isCopied ? "Link copied" : "Copy the link from its field";
  byId("copy").textContent = isCopied ? "Link copied" : "Copy link";
  if (!isCopied) byId("link").select();
  setTimeout(() => { byId("copy").textContent = "Copy link"; }, 2000);
}

function download() {
  const file = make("a", { href: URL.createObjectURL(new Blob([transcriptOf(chat)], { type: "application/jsonl" })) });
  file.download = `${nameOf(chat).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "chat"}.jsonl`;
  file.click();
  setTimeout(() => URL.revokeObjectURL(file.href), 1000);
}

async function openAddress(fragment) { // the chat that it names or holds
  const [kind, value] = fragment.slice(1).split("=");
  const stored = chats.find(({ id }) => id === value);
  if (kind === "chat" && stored && stored !== chat) open(stored);
  if (kind !== "copy") return;
  const copy = await chatOfLink(value ?? "");
  if (!copy) {
    history.replaceState(null, "", location.pathname);
    say("error", "This link holds no chat: it may have been cut.");
    return;
  }
  const same = chats.find((one) => JSON.stringify(one) === JSON.stringify(copy));
  if (!same && chats.some(({ id }) => id === copy.id)) copy.id = newId();
  open(same ?? copy);
  save();
}

async function load() {
  say("loading", "Loading …");
  try {
    const listed = await (await request("/runs")).json();
    runs = listed.runs;
    keepsVotes = listed.votes;
  } catch (error) {
    const isLocked = error.status === 401;
    byId("lock").hidden = !isLocked;
    say("loading", !isLocked ? error.message : keyOf() ? "The service does not accept this key." : "This service needs a key.");
    byId("retry").hidden = isLocked;
    return;
  }
  say("loading", "");
  byId("lock").hidden = byId("retry").hidden = true;
  byId("studio").hidden = false;
  document.title = runs.map(({ name }) => name).join(" and ");
  try {
    if (keyOf()) sessionStorage.setItem(KEY, keyOf());
  } catch { /* no storage: the key is asked for again */ }
  const search = new Set(runs.map((run) => run.search));
  byId("search").options[0].text = search.size > 1 ? "of each run" : `of the run (${[...search][0]})`;
  loadSettings();
  showModels();
  const { hash } = location;
  open(chat);
  await openAddress(hash);
  if (WIDE.matches) text.focus();
}

byId("line").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) running.abort();
  else if (text.value.trim()) answer(text.value.trim());
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Escape") running?.abort();
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) byId("line").requestSubmit();
});
byId("settings").addEventListener("submit", (event) => event.preventDefault());
byId("settings").addEventListener("change", saveSettings);
byId("rater").addEventListener("change", saveSettings);
byId("new").addEventListener("click", () => add(newChat()));
byId("new-blind").addEventListener("click", () => add(newChat(true)));
byId("show-list").addEventListener("click", () => {
  byId("show-list").ariaExpanded = String(document.body.classList.toggle("lists"));
});
byId("name").addEventListener("change", () => {
  chat.name = byId("name").value.trim().slice(0, 200);
  save();
});
byId("copy").addEventListener("click", copyLink);
byId("download").addEventListener("click", download);
byId("delete").addEventListener("click", remove);
byId("undo").addEventListener("click", restore);
byId("reveal").addEventListener("click", reveal);
byId("retry").addEventListener("click", load);
byId("lock").addEventListener("submit", (event) => {
  event.preventDefault();
  load();
});
for (const control of votes.querySelectorAll("button")) control.addEventListener("click", () => vote(control.dataset.choice));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches("input, textarea, select")) return;
  if (CHOICE_OF_KEY[event.key] && awaitsVote() && !votes.disabled) vote(CHOICE_OF_KEY[event.key]);
});
addEventListener("storage", ({ key }) => { // another tab has changed the list
  if (key !== STORE) return;
  chats = storedChats().map((one) => (one.id === chat.id ? chat : one));
  showList();
});
addEventListener("hashchange", () => openAddress(location.hash));
try {
  if (byId("key")) byId("key").value = sessionStorage.getItem(KEY) ?? "";
} catch { /* no storage */ }
load();
