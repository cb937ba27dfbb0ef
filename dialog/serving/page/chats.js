// Chats of this browser: a list in its storage, links and transcripts. What comes from storage or a link is checked.

const STORE = "dialog-chats";
const MOST_LINK = 2 ** 20; // characters of a chat in a link
const CHOICES = ["a", "b", "tie"];

// A chat: {id, name, blind, revealed, exchanges: [{line, replies: [{model, text, settings}], choice, kept}]}. All models continue with the
// reply of the model that is `kept`; without one, each with its own. The replies of a blind chat are A and B.

const newId = () => crypto.getRandomValues(new Uint32Array(2)).reduce((text, number) => text + number.toString(36), "");
const newChat = (blind = false) => ({ id: newId(), name: "", blind, revealed: false, exchanges: [] });
const isText = (value) => typeof value === "string";

function checkedChat(value) { // a copy with known fields only; null if it is not a chat
  const exchanges = Array.isArray(value?.exchanges) ? value.exchanges : [null];
  const isReply = (reply) => isText(reply?.model) && isText(reply.text);
  if (!exchanges.every((one) => isText(one?.line) && Array.isArray(one.replies) && one.replies.every(isReply))) return null;
  return {
    id: /^[a-z0-9]{1,20}$/.test(value.id) ? value.id : newId(),
    name: isText(value.name) ? value.name.slice(0, 200) : "",
    blind: value.blind === true,
    revealed: value.revealed === true,
    exchanges: exchanges.map(({ line, replies, choice, kept }) => ({
      line,
      replies: replies.map(({ model, text, settings }) => ({ model, text, settings })),
      choice: CHOICES.includes(choice) ? choice : null,
      kept: isText(kept) ? kept : null,
    })),
  };
}

function storedChats() {
  try {
    const stored = JSON.parse(localStorage.getItem(STORE)) ?? [];
    return stored.map(checkedChat).filter(Boolean);
  } catch { // no storage, or a damaged entry
    return [];
  }
}

function storeChats(chats) { // return whether the browser keeps them
  try {
    localStorage.setItem(STORE, JSON.stringify(chats));
    return true;
  } catch {
    return false;
  }
}

function nameOf(chat) {
  const line = chat.name || chat.exchanges[0]?.line.trim() || "New chat";
  return line.length > 60 ? `${line.slice(0, 60)}…` : line;
}

// The turns that a model reads before the exchange at a place, and its line. Exchanges without a reply of the model are left out.
function contextOf(chat, model, place) {
  const before = chat.exchanges.slice(0, place).flatMap(({ line, replies, kept }) => {
    const reply = replies.find((one) => one.model === (kept ?? model));
    return reply ? [line, reply.text] : [];
  });
  return [...before, chat.exchanges[place].line];
}

// One line for each reply; `respond` reads them and answers the contexts again.
function transcriptOf(chat) {
  return chat.exchanges.flatMap(({ replies }, place) => replies.map(({ model, text }) => (
    `${JSON.stringify({ id: `${place + 1}-${model}`, model, context: contextOf(chat, model, place), response: text })}\n`
  ))).join("");
}

async function packed(text) { // as URL-safe base64 of compressed UTF-8
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpacked(code) {
  const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (text.length > MOST_LINK) throw new Error("too long");
  }
}

async function linkOf(chat) {
  return `${location.origin}${location.pathname}#copy=${await packed(JSON.stringify(chat))}`;
}

async function chatOfLink(code) { // null if it is not the code of a chat
  try {
    return checkedChat(JSON.parse(await unpacked(code)));
  } catch {
    return null;
  }
}
