"use strict";
(() => {
  const HIDEABLE = [["se", "end and start tokens"], ["r", "role tokens"], ["p", "punctuation"]];
  const SIDES = { source: "context", target: "response", read: "response so far", turns: "turns", lines: "turns" };
  const MOST_COLUMNS = 160, MOST_LABEL = 18, SMALLEST_CELL = 3, LARGEST_CELL = 22, TALLEST = 1320, STRONGEST = 4;
  const HELP = "Mean over all rows. Hover over a token with a dotted line, or reach it with Tab and the arrow keys, to see its row; Escape returns to the mean.";
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  function picker(label) {
    const select = make("select");
    return { select, label: make("label", { class: "pick" }, label, select) };
  }

  function fill(select, groups, chosen) {
    select.replaceChildren(...groups.map(([title, options]) => {
      const items = options.map(([value, text]) => make("option", { value }, text));
      return title ? make("optgroup", { label: title }, ...items) : items;
    }).flat());
    select.value = chosen;
  }

  const range = (first, end) => Array.from({ length: end - first }, (_, place) => first + place);
  const total = (values) => values.reduce((sum, value) => sum + value, 0);
  // Folded turns are sums, so they have a scale of their own: [largest weight of tokens, of folded turns].
  function peaksOf(matrices) {
    return [false, true].map((folded) => matrices.reduce((most, { items, values }) => values.reduce((peak, row) =>
      row.reduce((high, value, item) => Boolean(items[item].folded) === folded ? Math.max(high, Math.abs(value)) : high, peak), most), 0));
  }
  const shortened = (text) => {
    const letters = [...readable(text)];
    return letters.length > MOST_LABEL ? `${letters.slice(0, MOST_LABEL - 1).join("")}…` : letters.join("");
  };
  const percent = (share) => `${(100 * share).toFixed(Math.abs(share) < 0.1 ? 1 : 0).replace(/^-(0\.0)$/, "$1")} %`;
  const readable = (token) => token === "▁" ? "␣" : token.replaceAll("▁", "_");
  const sameTexts = (one, other) => one.length === other.length && one.every((text, place) => text === other[place]);

  const isolated = (text) => `\u2068${text}\u2069`; // keeps the order of the line around text of any direction
  const named = ({ tokens, parts }, place) => isolated(readable(tokens[place])) + (parts[place] ? ` (part of ${isolated(parts[place])})` : "");

  function colourScale(name, colours, lowest, highest) { // of the map, from left to right
    const bar = make("span", { class: "bar", role: "img", "aria-label": "colour scale" });
    bar.style.backgroundImage = `linear-gradient(to right, ${colours.filter((_, place) => place % 15 === 0).join(", ")})`;
    return make("p", { class: "scale" }, `${name}: ${lowest}`, bar, highest);
  }

  // ---------------------------------------------------------------- numbers

  function weightsOf(map) { // [H * T * S], decoded when first used
    if (!map.values) {
      const bytes = Uint8Array.from(atob(map.weights), (char) => char.charCodeAt(0));
      const view = new DataView(bytes.buffer);
      map.values = Float32Array.from({ length: bytes.length / 2 }, (_, place) => view.getUint16(2 * place, true) / 65535);
    }
    return map.values;
  }

  function rowOf(map, head, row) { // [S], of one head or the mean over heads
    const [heads, rows, columns] = map.shape;
    const values = weightsOf(map);
    const chosen = head === null ? range(0, heads) : [head];
    return range(0, columns).map((column) => total(chosen.map((one) => values[(one * rows + row) * columns + column])) / chosen.length);
  }

  // Weights [rows][items]: hidden columns are left out and the others renormalised; a folded turn is one item, its sum.
  function matrixOf({ reading, map, head }, hidden, folded) {
    const [rows, columns] = [reading.axes[map.rows], reading.axes[map.columns]];
    const items = [];
    columns.groups.forEach(([label, first, end], group) => {
      const places = range(first, end).filter((place) => !hidden.has(columns.kinds[place]));
      if (folded.has(`${map.columns} ${group}`) && places.length) items.push({ text: `${label} (${places.length})`, name: label, places, group, folded: true });
      else items.push(...places.map((place) => ({ text: columns.tokens[place], name: named(columns, place), places: [place], group })));
    });
    let removed = 0;
    const values = rows.tokens.map((_, row) => {
      const weights = rowOf(map, head, row);
      const shown = items.map(({ places }) => total(places.map((place) => weights[place])));
      const kept = total(shown);
      removed += (total(weights) - kept) / rows.tokens.length;
      return hidden.size && kept > 0 ? shown.map((weight) => weight / kept) : shown;
    });
    return { map, rows, columns, items, values, removed, hidden };
  }

  function differenceOf(one, other) {
    const values = one.values.map((row, place) => row.map((weight, item) => weight - other.values[place][item]));
    return { ...one, values, removed: 0, isDifference: true };
  }

  const agree = (one, other) => sameTexts(one.rows.tokens, other.rows.tokens)
    && sameTexts(one.columns.tokens, other.columns.tokens) && one.items.length === other.items.length;

  function meanRow(values) {
    return (values[0] || []).map((_, item) => total(values.map((row) => row[item])) / values.length);
  }

  function meanPeakOf(matrices) { // largest weight of a token in the mean over rows
    return peaksOf(matrices.map(({ items, values }) => ({ items, values: [meanRow(values)] })))[0];
  }

  // ---------------------------------------------------------------- colours

  function mixed(anchors) { // 256 colours
    const channels = anchors.map((anchor) => [1, 3, 5].map((place) => parseInt(anchor.slice(place, place + 2), 16)));
    return range(0, 256).map((step) => {
      const place = (step / 255) * (anchors.length - 1);
      const low = Math.min(Math.floor(place), anchors.length - 2);
      return `rgb(${channels[low].map((value, channel) => Math.round(value + (channels[low + 1][channel] - value) * (place - low)))})`;
    });
  }

  function lettersOn(colour) { // the letters with the higher contrast, by the relative luminance of WCAG 2
    const [red, green, blue] = colour.match(/\d+/g).map((value) => value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.19 ? "#111" : "#fff";
  }

  // ---------------------------------------------------------------- one map

  class Panel {
    constructor(explorer, name) {
      [this.explorer, this.name] = [explorer, name];
      this.title = make("h3");
      [this.run, this.layer, this.head] = [explorer.data.slider ? "step" : "run", "map", "head"].map((text) => picker(text));
      this.choices = make("div", { class: "controls choices" }, this.run.label, this.layer.label, this.head.label);
      this.body = make("div");
      this.element = make("section", { class: "panel" }, this.title, this.choices, this.body);
      for (const { select } of [this.run, this.layer, this.head]) {
        select.addEventListener("change", () => { this.offer(); explorer.update(); });
      }
    }

    // Fill the choices from the example, and keep what is still possible.
    offer(preferred = {}) {
      const { readings } = this.explorer.example;
      const run = preferred.run ?? Math.min(Number(this.run.select.value || 0), readings.length - 1);
      const { maps } = readings[run];
      const titles = { cross: "Cross-attention", rollout: "Through all layers", source: "Encoder self-attention", target: "Decoder self-attention" };
      const kindOf = (map) => map.kind !== "self" ? map.kind : map.rows === "target" ? "target" : "source";
      const cross = maps.findLastIndex((map) => map.kind === "cross" && ["source", "lines"].includes(map.columns));
      const named = (name) => maps.findIndex((map) => map.name === name);
      const layer = [preferred.map, this.layer.select.value].map(named).find((place) => place >= 0)
        ?? (cross >= 0 ? cross : maps.length - 1);
      const heads = maps[layer].shape[0];
      const wanted = preferred.map !== undefined ? preferred.head ?? "mean" : this.head.select.value || "mean";
      const head = heads === 1 || Number(wanted) >= heads ? "mean" : String(wanted);
      fill(this.run.select, [["", readings.map((reading, place) => [place, reading.label || "run"])]], String(run));
      fill(this.layer.select, Object.entries(titles).map(([kind, title]) =>
        [title, maps.filter((map) => kindOf(map) === kind).map((map) => [map.name, map.name])]
      ).filter(([, options]) => options.length), maps[layer].name);
      fill(this.head.select, [["", [["mean", "mean over heads"], ...range(0, heads).map((one) => [one, `head ${one}`])]]], head);
      this.run.label.hidden = readings.length < 2 || (this.explorer.data.slider && this.name === "A"); // it has the slider
      this.head.label.hidden = heads < 2;
    }

    get choice() {
      const reading = this.explorer.example.readings[Number(this.run.select.value)];
      const map = reading.maps.find((one) => one.name === this.layer.select.value);
      const head = this.head.select.value === "mean" ? null : Number(this.head.select.value);
      return { reading, map, head };
    }

    get description() {
      const { reading, map, head } = this.choice;
      const heads = map.shape[0] < 2 ? "" : head === null ? ", mean over heads" : `, head ${head}`;
      return `${reading.label ? `${reading.label}: ` : ""}${map.name}${heads}`;
    }

    show(matrix, title) {
      [this.matrix, this.key] = [matrix, matrix.rows.tokens.join("\n")];
      this.title.textContent = title;
      this.rowTokens = make("div", { role: "listbox", "aria-orientation": "horizontal", "aria-label": "rows" });
      this.options = this.tokens(this.rowTokens, matrix.rows.tokens, matrix.rows.kinds, range(0, matrix.rows.tokens.length));
      this.options.forEach((option, row) => this.listen(option, row));
      const { rows, columns } = matrix.map;
      const heading = (text) => make("span", { class: "heading" }, text);
      this.canvas = make("canvas", { role: "img", "aria-label": `${title}: the same weights as colours of a map` });
      this.tip = make("div", { class: "tip", hidden: true });
      this.frame = make("div", { class: "canvas" }, this.canvas, this.tip);
      this.legend = make("div", { class: "scales" });
      this.canvas.addEventListener("mousemove", (event) => this.point(event));
      this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
      this.groups = matrix.columns.groups.map((group, place) => this.group(group, place));
      this.body.replaceChildren(
        make("div", { class: "rows" }, heading(`rows: ${SIDES[rows]}`), this.rowTokens),
        make("div", { class: "columns" }, heading(`columns: ${SIDES[columns]}`), ...this.groups.map(({ element }) => element)),
        this.frame,
        this.legend,
      );
      this.shade();
    }

    // Append tokens as text that reads naturally: inline, so that any script joins and orders its letters.
    tokens(parent, tokens, kinds, places) {
      const axes = Object.values(this.choice.reading.axes);
      const marked = axes.some((axis) => axis.tokens.some((token) => token.startsWith("▁"))); // else a token is a word
      parent.setAttribute("dir", "auto");
      return places.map((place) => {
        const token = tokens[place];
        const begins = token.startsWith("▁") && token.length > 1;
        if (begins || !marked || kinds[place] === "r") parent.append(" ");
        const special = !"wp".includes(kinds[place]) || token.startsWith("\\");
        const span = make("span", { class: special ? "token special" : "token", dir: special && "ltr" }, begins ? token.slice(1) : readable(token));
        parent.append(span);
        return span;
      });
    }

    group([label, first, end], place) {
      const { columns, items, map, hidden } = this.matrix;
      const key = `${map.columns} ${place}`;
      const folded = this.explorer.folded.has(key);
      const share = make("span");
      const bar = make("span", { class: "mass" });
      const button = make("button", { type: "button", "aria-expanded": String(!folded) }, `${label} `, share, bar);
      button.addEventListener("click", () => this.explorer.fold(key, !folded));
      const text = make("div", { class: folded ? "tokens folded" : "tokens" });
      const places = range(first, end);
      const spans = this.tokens(text, columns.tokens, columns.kinds, folded ? places.slice(0, 40) : places);
      const own = items.map((item, index) => ({ item, index })).filter(({ item }) => item.group === place);
      const shown = new Map(folded ? [] : own.map(({ item, index }) => [item.places[0] - first, index]));
      spans.forEach((span, index) => span.classList.toggle("gone", hidden.has(columns.kinds[first + index])));
      return { element: make("div", { class: "group" }, button, text), share, bar, spans, shown, own };
    }

    listen(option, row) {
      option.setAttribute("role", "option");
      option.tabIndex = row === 0 ? 0 : -1;
      option.addEventListener("mouseenter", () => this.explorer.select(this, row));
      option.addEventListener("focus", () => this.explorer.select(this, row));
      option.addEventListener("click", () => option.focus());
      option.addEventListener("keydown", (event) => {
        const last = this.options.length - 1;
        const target = { ArrowRight: row + 1, ArrowDown: row + 1, ArrowLeft: row - 1, ArrowUp: row - 1, Home: 0, End: last }[event.key];
        if (target !== undefined) {
          event.preventDefault();
          this.options[Math.min(Math.max(target, 0), last)].focus();
        }
      });
    }

    get row() {
      const { selected } = this.explorer;
      return selected && selected.key === this.key ? selected.row : null;
    }

    get values() {
      return this.row === null ? meanRow(this.matrix.values) : this.matrix.values[this.row];
    }

    // Colour the tokens of the columns by the selected row, and draw the map.
    shade() {
      const { row, values } = this;
      const { items, isDifference } = this.matrix;
      const scale = this.explorer.scale(isDifference ? "differences" : "weights");
      const peaks = isDifference ? peaksOf([this.matrix]) : this.explorer.peaks;
      const meanPeak = isDifference ? meanPeakOf([this.matrix]) : this.explorer.meanPeak;
      const peak = row === null ? meanPeak : peaks[0]; // a row has the colours that it has in the map
      this.options.forEach((option, place) => option.setAttribute("aria-selected", String(place === row)));
      if (row !== null) this.options.forEach((option, place) => { option.tabIndex = place === row ? 0 : -1; });
      for (const { share, bar, spans, shown, own } of this.groups) {
        const mass = total(own.map(({ index }) => values[index]));
        share.textContent = `${isDifference && mass > 0.0005 ? "+" : ""}${percent(mass)}`;
        bar.style.width = `${100 * Math.min(1, Math.abs(mass))}%`;
        spans.forEach((span, place) => {
          const weight = shown.has(place) ? values[shown.get(place)] : 0;
          const fraction = peak ? weight / peak : 0;
          const position = isDifference ? (fraction + 1) / 2 : fraction;
          const colour = fraction ? scale[Math.round(255 * Math.min(1, position))] : "";
          span.style.backgroundColor = colour;
          span.style.color = colour && lettersOn(colour);
          if (shown.has(place)) span.title = `${items[shown.get(place)].name}: ${weight.toFixed(3)}`;
        });
      }
      this.draw(scale, peaks);
      const name = isDifference ? "difference" : "weight";
      const mean = row === null && meanPeak !== peaks[0] ? meanPeak : 0;
      const scales = [[name, peaks[0]], [`${name} of a folded turn`, peaks[1]], [`mean ${name} in the text above`, mean]];
      this.legend.replaceChildren(...scales.filter(([, most]) => most).map(([label, most]) =>
        colourScale(label, scale, isDifference ? `−${most.toFixed(3)}` : "0", `${isDifference ? "+" : ""}${most.toFixed(3)}`)));
    }

    draw(scale, peaks) {
      const { rows, items, values, isDifference } = this.matrix;
      const context = this.canvas.getContext("2d");
      const style = getComputedStyle(this.explorer.root);
      context.font = `12px ${style.fontFamily}`;
      const widest = (texts) => Math.ceil(Math.max(0, ...texts.map((text) => context.measureText(shortened(text)).width)));
      const [left, top] = [widest(rows.tokens) + 12, Math.ceil(0.87 * widest(items.map(({ text }) => text))) + 18];
      const space = (this.frame.clientWidth || 600) - left - 40;
      const cell = Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL, Math.floor(space / Math.max(1, items.length))));
      const height = Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL, Math.floor(TALLEST / Math.max(1, values.length))));
      const size = [left + items.length * cell + 60, top + values.length * height + 4];
      const density = Math.min(devicePixelRatio || 1, 16000 / Math.max(...size));
      [this.canvas.width, this.canvas.height] = size.map((length) => Math.round(length * density));
      [this.canvas.style.width, this.canvas.style.height] = size.map((length) => `${length}px`);
      context.scale(density, density);
      context.font = `12px ${style.fontFamily}`;
      const ink = this.explorer.isDark ? "#e4e7eb" : "#1b1f24";
      const gap = Math.min(cell, height) > 7 ? 1 : 0;
      values.forEach((row, y) => row.forEach((weight, x) => {
        const fraction = weight / (peaks[Number(Boolean(items[x].folded))] || 1);
        context.fillStyle = scale[Math.round(255 * Math.min(1, Math.max(0, isDifference ? (fraction + 1) / 2 : fraction)))];
        context.fillRect(left + x * cell, top + y * height, cell - gap, height - gap);
      }));
      context.fillStyle = ink;
      context.textBaseline = "middle";
      context.textAlign = "right";
      const steps = [Math.ceil(13 / height), Math.ceil(12 / cell)];
      rows.tokens.forEach((token, y) => {
        if (y % steps[0] === 0 || y === this.row) context.fillText(shortened(token), left - 6, top + (y + 0.5) * height);
      });
      context.textAlign = "left";
      items.forEach(({ text }, x) => {
        if (x % steps[1]) return;
        context.save();
        context.translate(left + (x + 0.5) * cell, top - 5);
        context.rotate(-Math.PI / 3);
        context.fillText(shortened(text), 0, 0);
        context.restore();
      });
      if (this.row !== null) {
        context.strokeStyle = ink;
        context.strokeRect(left - 0.5, top + this.row * height - 0.5, items.length * cell, height);
      }
      this.layout = { left, top, cell, height };
    }

    point(event) {
      const { left, top, cell, height } = this.layout;
      const [x, y] = [Math.floor((event.offsetX - left) / cell), Math.floor((event.offsetY - top) / height)];
      const { items, rows, values } = this.matrix;
      this.tip.hidden = !(items[x] && values[y]);
      if (this.tip.hidden) return;
      if (y !== this.row) this.explorer.select(this, y);
      this.tip.textContent = `${named(rows, y)} → ${items[x].name}: ${values[y][x].toFixed(3)}`;
      this.tip.style.left = `${Math.max(this.frame.scrollLeft, Math.min(event.offsetX + 12, this.frame.scrollLeft + this.frame.clientWidth - 180))}px`;
      const below = event.offsetY + 14;
      const fits = below + this.tip.offsetHeight <= this.frame.clientHeight;
      this.tip.style.top = `${fits ? below : Math.max(0, event.offsetY - this.tip.offsetHeight - 8)}px`;
    }

    get strongest() {
      const { items, rows, columns } = this.matrix;
      const order = range(0, items.length).sort((one, other) => Math.abs(this.values[other]) - Math.abs(this.values[one])).slice(0, STRONGEST);
      const texts = order.map((place) => {
        const { name, group, folded } = items[place];
        return `${name} ${this.values[place].toFixed(2)}${folded ? "" : ` (${columns.groups[group][0]})`}`;
      });
      return `${named(rows, this.row)} → ${texts.join(", ")}`;
    }
  }

  // ---------------------------------------------------------------- the whole

  class Explorer {
    constructor(root) {
      this.root = root;
      this.data = JSON.parse(root.querySelector("script").textContent);
      if (!this.data.examples.every(({ readings }) => readings.every(({ maps }) => maps.length))) return;
      [this.hidden, this.folded, this.selected, this.printing] = [new Set(), new Set(), null, false];
      this.build();
      this.offer();
      this.update();
      root.querySelector(".still").hidden = true;
      const redraw = (printing) => { this.printing = printing; this.scales = {}; this.shade(); };
      dark.addEventListener("change", () => redraw(false));
      addEventListener("beforeprint", () => redraw(true));
      addEventListener("afterprint", () => redraw(false));
      new ResizeObserver(() => this.shade()).observe(root);
      root.addEventListener("keydown", (event) => { if (event.key === "Escape") this.select(null, null); });
    }

    get example() {
      return this.data.examples[Number(this.examples.select.value || 0)];
    }

    get isDark() {
      return dark.matches && !this.printing;
    }

    scale(kind) {
      const page = this.isDark ? "dark" : "light";
      this.scales = this.scales || {};
      return this.scales[`${page} ${kind}`] ??= mixed(this.data.scales[page][kind]);
    }

    build() {
      const check = (text, checked, change) => {
        const box = make("input", { type: "checkbox", checked });
        box.addEventListener("change", () => { change(box.checked); this.update(); });
        return { box, label: make("label", {}, box, text) };
      };
      this.examples = picker("example");
      fill(this.examples.select, [["", this.data.examples.map(({ id }, place) => [place, id])]], "0");
      this.examples.label.hidden = this.data.examples.length < 2;
      this.examples.select.addEventListener("change", () => { this.offer(); this.update(); });
      this.steps = make("input", { type: "range", min: 0, step: 1, value: 0 });
      this.step = make("output");
      const steps = make("label", { class: "pick steps" }, make("span", {}, "training: ", this.step), this.steps);
      steps.hidden = !this.data.slider;
      this.steps.addEventListener("input", () => {
        this.panels[0].offer({ run: Number(this.steps.value) });
        this.update();
      });
      this.second = check("second map", this.data.second, () => {});
      this.difference = check("difference A − B", false, () => {});
      const hide = HIDEABLE.map(([kinds, text]) =>
        check(text, false, (on) => { for (const kind of kinds) this.hidden[on ? "add" : "delete"](kind); }).label);
      this.folding = make("button", { type: "button" });
      this.folding.addEventListener("click", () => { this.foldAll(this.foldable.some((key) => !this.folded.has(key))); this.update(); });
      [this.status, this.notes] = [make("p", { class: "status", "aria-live": "polite" }), make("div")];
      this.panels = ["A", "B", "A − B"].map((name) => new Panel(this, name));
      this.panels[2].choices.hidden = true;
      const controls = make("div", { class: "controls" },
        this.examples.label, steps, this.second.label, this.difference.label,
        make("fieldset", {}, make("legend", {}, "hide columns"), ...hide), this.folding);
      this.root.append(controls, this.notes, this.status, make("div", { class: "panels" }, ...this.panels.map(({ element }) => element)));
    }

    // Offer what a new example has; fold its first turns if it is long.
    offer() {
      const { readings } = this.example;
      const started = this.panels[0].layer.select.value !== "";
      this.panels.slice(0, 2).forEach((panel, place) => {
        const run = this.data.slider ? readings.length - 1 : Math.min(place, readings.length - 1);
        panel.offer(started ? {} : { run, ...(this.data.first || {}) });
      });
      this.selected = null;
      this.foldAll(false);
      for (const { choice: { reading } } of this.panels.slice(0, 2)) {
        const { tokens = [], groups = [] } = reading.axes.source || {};
        let length = tokens.length;
        groups.slice(0, -1).forEach(([, first, end], place) => {
          if (length > MOST_COLUMNS) { this.folded.add(`source ${place}`); length -= end - first - 1; }
        });
      }
    }

    get foldable() {
      return [...new Set(this.panels.slice(0, 2).flatMap(({ choice: { reading, map } }) => {
        const { groups } = reading.axes[map.columns];
        return groups.length > 1 && map.columns === "source" ? groups.map((_, place) => `source ${place}`) : [];
      }))];
    }

    foldAll(fold) {
      this.folded = new Set(fold ? this.foldable : []);
    }

    fold(key, fold) {
      this.folded[fold ? "add" : "delete"](key);
      this.update();
    }

    update() {
      const [first, second, third] = this.panels;
      this.steps.max = this.example.readings.length - 1;
      this.steps.value = first.run.select.value;
      this.step.textContent = first.choice.reading.label;
      const matrices = [first, second].map((panel) => matrixOf(panel.choice, this.hidden, this.folded));
      const both = this.second.box.checked;
      const comparable = both && agree(...matrices);
      this.difference.box.disabled = !comparable;
      this.difference.label.title = both && !comparable ? "The maps have different tokens." : "";
      this.matrices = both ? matrices : matrices.slice(0, 1);
      this.peaks = peaksOf(this.matrices);
      this.meanPeak = meanPeakOf(this.matrices);
      const subtracted = comparable && this.difference.box.checked;
      [second.element.hidden, third.element.hidden] = [!both, !subtracted];
      this.shown = [first, ...(both ? [second] : []), ...(subtracted ? [third] : [])];
      first.show(matrices[0], both ? `A: ${first.description}` : first.description);
      if (both) second.show(matrices[1], `B: ${second.description}`);
      if (subtracted) third.show(differenceOf(...matrices), "Difference A − B: blue where A is larger");
      const foldable = this.foldable;
      this.folding.hidden = !foldable.length;
      this.folding.textContent = foldable.some((key) => !this.folded.has(key)) ? "fold all turns" : "unfold all turns";
      this.note();
      this.tell();
    }

    note() {
      const texts = this.shown.slice(0, this.matrices.length).flatMap(({ choice: { reading } }) => reading.notes);
      if (this.peaks[0] && this.peaks[1]) texts.push("A folded turn is the sum over its tokens; folded turns have a colour scale of their own.");
      const names = HIDEABLE.filter(([kinds]) => this.hidden.has(kinds[0])).map(([, text]) => text);
      if (names.length) {
        const shares = this.matrices.map(({ removed }, place) => `${percent(removed)}${this.matrices.length > 1 ? ` in ${"AB"[place]}` : ""}`);
        texts.push(`Hidden: ${names.join(", ")}. Each row is renormalised over the other tokens; the hidden ones hold ${shares.join(" and ")} of a row on average.`);
      }
      this.notes.replaceChildren(...[...new Set(texts)].map((text) => make("p", { class: "note" }, text)));
    }

    select(panel, row) {
      this.selected = panel === null ? null : { key: panel.key, row };
      this.shade();
      this.tell();
    }

    shade() {
      for (const panel of this.shown) panel.shade();
    }

    tell() {
      const lines = this.shown.filter((panel) => panel.row !== null).map((panel) => make("span", { class: "line" }, `${this.shown.length > 1 ? `${panel.name}: ` : ""}${panel.strongest}`));
      this.status.replaceChildren(...(lines.length ? lines.flatMap((line) => [line, make("br")]) : [HELP]));
    }
  }

  for (const root of document.querySelectorAll(".explorer")) new Explorer(root);
})();
