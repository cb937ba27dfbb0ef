"use strict";
// What pages with a chat share: elements, and the attention of a reply over what the model has read.

const byId = (id) => document.getElementById(id);
const STRONGEST = 4; // tokens that are named
const ROLES = { other: "you:", self: "model:", end: "end", begin: "start", unknown: "unknown" };

function make(tag, values = {}, ...children) {
  const element = Object.assign(document.createElement(tag), values);
  element.append(...children);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const shownText = ({ text, special }) => special ? ROLES[special] ?? special : text.trim() || "␣";

class Reading { // the attention of one reply over what the model has read
  constructor(name, { isFolded = false } = {}) { // folded: below a heading of its own, with the map on request
    this.layer = make("select");
    this.head = make("select");
    this.caption = make("p", { className: "caption" });
    this.rows = make("p", { className: "tokens" });
    this.columns = make("p", { className: "tokens" });
    this.strongest = make("p", { className: "caption strongest" });
    this.table = make("table", { className: "heat" });
    this.scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `Weights of ${name}` }, this.table);
    this.map = isFolded ? make("details", {}, make("summary", {}, "Map of all tokens"), this.scroll) : this.scroll;
    this.choices = make("div", { className: "choices", hidden: true }, make("label", {}, "Layer ", this.layer), make("label", {}, "Head ", this.head));
    const heading = isFolded ? [] : [make("h2", { dir: "auto" }, name)];
    this.element = make("section", { className: "reading", ariaLabel: `Attention of ${name}` }, ...heading, this.caption, this.choices, this.rows, this.columns, this.strongest, this.map);
    this.layer.addEventListener("change", () => { this.offerHeads(); this.draw(); });
    this.head.addEventListener("change", () => this.draw());
    this.rows.addEventListener("keydown", (event) => this.move(event));
    this.map.addEventListener("toggle", () => this.scrollToEnd());
    this.clear();
  }

  clear() {
    this.answer = null;
    this.caption.textContent = "Which words does the model attend to? Type a line to see it.";
    this.choices.hidden = this.map.hidden = true;
    this.rows.replaceChildren();
    this.columns.replaceChildren();
    this.strongest.textContent = "";
  }

  show(answer, caption) {
    this.answer = answer;
    this.caption.textContent = caption;
    this.row = null;
    const { maps } = answer;
    const layer = maps.some(({ name }) => name === this.layer.value) ? this.layer.value : maps.at(-1)?.name;
    this.layer.replaceChildren(...maps.map(({ name }) => make("option", { value: name }, name.replace(/^decoder\./, "").replace(/\.?(cross|source)_attention$/, "") || name)));
    this.layer.value = layer;
    this.choices.hidden = this.map.hidden = !maps.length;
    this.offerHeads();
    this.draw();
  }

  get chosen() {
    return this.answer.maps.find(({ name }) => name === this.layer.value);
  }

  offerHeads() {
    const { heads } = this.chosen ?? { heads: [] }, chosen = this.head.value;
    this.head.replaceChildren(make("option", { value: "" }, "mean"), ...heads.map((_, head) => make("option", { value: head }, head + 1)));
    this.head.value = Number(chosen) < heads.length ? chosen : "";
    this.head.parentElement.hidden = heads.length < 2;
  }

  // Weights of pieces: the sum over the tokens of a column, the mean over the tokens of a row and over the heads.
  weights() {
    const { rows, columns } = this.answer, { heads } = this.chosen;
    const chosen = this.head.value === "" ? heads : [heads[this.head.value]];
    return rows.map((row) => columns.map((column) => {
      let sum = 0;
      for (const head of chosen) for (let at = row.first; at < row.end; at++) for (let place = column.first; place < column.end; place++) sum += head[at][place];
      return sum / chosen.length / (row.end - row.first);
    }));
  }

  draw() {
    const { rows, columns } = this.answer;
    const tokens = rows.map((row, place) => {
      const token = make("button", { type: "button", className: row.special ? "special" : "", dir: "auto" }, shownText(row));
      token.addEventListener("click", () => this.select(this.row === place ? null : place));
      token.addEventListener("focus", () => token.matches(":focus-visible") && this.select(place));
      token.addEventListener("mouseenter", () => this.shade(place));
      token.addEventListener("mouseleave", () => this.shade(this.row));
      return token;
    });
    this.rows.replaceChildren(make("span", { className: "heading" }, this.chosen ? "Reply: point at a word to see where the model looked" : "Reply"), ...tokens.flatMap((token) => [token, " "]));
    this.columns.replaceChildren(make("span", { className: "heading" }, "What the model reads"), ...columns.flatMap((column) => [
      ...(["other", "self"].includes(column.special) && column.first ? [make("br")] : []), make("span", { className: column.special ? "special" : "", dir: "auto" }, shownText(column)), " "]));
    if (!this.chosen) {
      this.strongest.textContent = "This model has no attention over tokens.";
      return;
    }
    this.values = this.weights();
    this.drawTable();
    this.select(this.row);
  }

  drawTable() {
    const { rows, columns } = this.answer, peak = Math.max(...this.values.flat());
    const head = make("tr", {}, make("th"), ...columns.map((column) => make("th", { scope: "col" }, make("span", { dir: "auto" }, shownText(column)))));
    const lines = rows.map((row, at) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, shownText(row)), ...columns.map((column, place) => {
      const cell = make("td", { title: `${shownText(row)} → ${shownText(column)}: ${percent(this.values[at][place])}` });
      cell.style.setProperty("--share", `${100 * this.values[at][place] / peak}%`);
      return cell;
    })));
    this.table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...lines));
    this.scrollToEnd();
  }

  scrollToEnd() { // to the last turn
    this.scroll.scrollLeft = this.scroll.scrollWidth;
  }

  move(event) { // one token is a stop of the Tab key; the arrow keys lead to the others
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], tokens = [...this.rows.querySelectorAll("button")];
    const next = tokens[tokens.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    next.focus({ focusVisible: true });
  }

  select(row) {
    this.row = row;
    this.shade(row);
  }

  shade(row) { // the source by one row, or by the mean over all
    if (!this.chosen) return;
    const { rows, columns } = this.answer;
    const values = row === null ? columns.map((_, place) => this.values.reduce((sum, line) => sum + line[place], 0) / this.values.length) : this.values[row];
    const peak = Math.max(...values);
    [...this.columns.querySelectorAll("span:not(.heading)")].forEach((token, place) => {
      token.style.setProperty("--share", `${60 * values[place] / peak}%`);
      token.title = percent(values[place]);
    });
    [...this.rows.querySelectorAll("button")].forEach((token, place) => {
      token.ariaPressed = String(place === row);
      token.tabIndex = place === (this.row ?? 0) ? 0 : -1;
    });
    const best = values.map((_, place) => place).sort((one, other) => values[other] - values[one]).slice(0, STRONGEST);
    const who = row === null ? "All tokens of the reply attend most to" : `“${shownText(rows[row])}” attends most to`;
    this.strongest.textContent = `${who} ${best.map((place) => `“${shownText(columns[place])}” ${percent(values[place])}`).join(", ")}.`;
  }
}
