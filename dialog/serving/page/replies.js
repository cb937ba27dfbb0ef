// A reply with what can be asked about it: its attention and other candidates.

const CANDIDATES = 5;

class ReplyCard {
  constructor(label, { isOpen, choose }) { // choose(text) replaces the reply by a candidate
    this.label = label;
    this.isOpen = isOpen;
    this.choose = choose;
    this.name = make("h3", {}, named(label));
    this.text = make("p", { className: "text", dir: "auto" });
    this.problem = make("p", { className: "error", role: "alert", hidden: true });
    this.tools = make("div", { className: "tools", hidden: true });
    this.parts = make("div", { className: "parts" });
    this.element = make("article", { className: "reply", ariaLabel: `Reply of ${label}` }, this.name, this.text, this.problem, this.tools, this.parts);
  }

  wait() {
    this.element.ariaBusy = "true";
    this.problem.hidden = true;
    this.text.hidden = false;
    this.show("");
  }

  show(text) {
    this.text.textContent = text;
  }

  fail(message, retry) { // without retry, nothing can be done here
    this.element.ariaBusy = "false";
    this.text.hidden = true;
    this.problem.replaceChildren(message, " ");
    if (retry) this.problem.append(button("Try again", retry));
    this.problem.hidden = false;
  }

  finish(text) {
    this.element.ariaBusy = "false";
    this.show(text.trim() ? text : "(empty reply)");
    this.text.classList.toggle("empty", !text.trim());
  }

  // Offer attention and candidates of a reply to a context; `settings()` are those of the search.
  offer(model, context, text, settings) {
    this.about = { model, context, text, settings };
    this.parts.replaceChildren();
    const attention = this.toggle("Attention", () => this.attention());
    const candidates = this.toggle("Other candidates", () => this.candidates());
    this.tools.replaceChildren(attention, candidates);
    this.tools.hidden = false;
    if (this.isOpen()) attention.click();
  }

  toggle(name, fill) { // a button that shows a part, which is filled when it is first shown
    let part = null;
    const control = button(name, () => {
      const opens = control.ariaExpanded !== "true";
      control.ariaExpanded = String(opens);
      if (part === null) {
        part = make("section", { className: "part", ariaLabel: `${name} of ${this.label}` });
        this.parts.append(part);
        this.fill(part, fill);
      }
      part.hidden = !opens;
    });
    control.ariaExpanded = "false";
    return control;
  }

  async fill(part, content) {
    part.ariaBusy = "true";
    part.replaceChildren(make("p", { className: "caption" }, "Computing …"));
    try {
      part.replaceChildren(...await content());
    } catch (error) {
      part.replaceChildren(make("p", { className: "error", role: "alert" }, error.message, " ", button("Try again", () => this.fill(part, content))));
    }
    part.ariaBusy = "false";
  }

  async attention() {
    const { model, context, text } = this.about;
    const answer = await attentionOf(model, context, text);
    const reading = new Reading(this.label, { isFolded: true });
    reading.show(answer, "");
    return [...unreadNote(answer), reading.element, button("All maps, of the encoder too", () => this.openMaps())];
  }

  openMaps() { // in a window of their own: they need its width
    byId("maps-of").textContent = this.label;
    byId("maps").showModal();
    this.fill(byId("frame"), async () => {
      const { model, context, text } = this.about;
      const page = make("iframe", { title: `All attention maps of ${this.label}` });
      page.sandbox = "allow-scripts";
      page.srcdoc = await allMapsOf(model, context, text);
      return [page];
    });
  }

  async candidates() {
    const { model, context, text, settings } = this.about;
    const found = await candidatesOf(model, context, settings(), CANDIDATES);
    const rows = found.map((candidate) => {
      const isShown = candidate.text === text;
      const use = isShown ? "shown" : this.choose ? button("Use", () => this.choose(candidate.text)) : "";
      return make("tr", {}, make("td", { dir: "auto", className: "text" }, candidate.text || "(empty reply)"), make("td", {}, rounded(candidate.score)), make("td", {}, use));
    });
    const head = make("tr", {}, make("th", { scope: "col" }, "Reply"), make("th", { scope: "col" }, "Score"), make("th", {}, make("span", { className: "unseen" }, "Choice")));
    return [
      make("table", { className: "candidates" }, make("thead", {}, head), make("tbody", {}, ...rows)),
      make("p", { className: "caption" }, "Score: log-probability of the reply; the nearer to 0, the more probable. A search with one result is replaced by a beam of 5."),
    ];
  }
}

const rounded = (score) => (Math.round(100 * score) / 100 || 0).toFixed(2); // never -0.00

function named(name) { // a name that can break after a part
  return make("bdi", {}, ...name.split(/(?<=[/_])/).flatMap((part) => [part, make("wbr")]));
}

function button(name, act, className = "button") {
  const element = make("button", { type: "button", className }, name);
  element.addEventListener("click", act);
  return element;
}

function unreadNote({ unread, dropped }) { // what the model has not read of the chat
  if (!unread.length && !dropped) return [];
  const count = (number, noun) => (number === 1 ? noun : `${number} ${noun}s`);
  const parts = [...(unread.length ? [`first ${count(unread.length, "turn")}`] : []), ...(dropped ? [`${unread.length ? "next" : "first"} ${count(dropped, "token")}`] : [])];
  const title = `Not read: the ${parts.join(" and the ")}`;
  if (!unread.length) return [make("p", { className: "caption" }, title)];
  return [make("details", { className: "unread" }, make("summary", {}, title), ...unread.map((turn) => make("p", { dir: "auto" }, turn)))];
}
