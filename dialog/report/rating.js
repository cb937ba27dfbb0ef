"use strict";
(() => {
  const section = document.getElementById("rating");
  if (!section) return;
  const find = (selector) => section.querySelector(selector);
  const pairs = [...section.querySelectorAll(".pair")];
  const ids = pairs.map((pair) => pair.dataset.id);
  const fingerprint = section.dataset.fingerprint;
  const key = `dialog-rating-${fingerprint}`;
  const choiceOfKey = { 1: "left", 2: "right", 0: "tie", s: "skip" };
  const [rater, details] = [find("input"), find("details")];
  const choices = new Map();
  let position = 0;
  let downloaded = "";
  let active = false;

  function load() {
    try {
      const saved = JSON.parse(localStorage.getItem(key)) || {};
      rater.value = String(saved.rater || "");
      for (const { id, choice } of saved.ratings || []) {
        if (ids.includes(id) && Object.values(choiceOfKey).includes(choice)) choices.set(id, choice);
      }
    } catch { /* no storage, or a damaged entry: start with none */ }
  }

  function content() {
    const ratings = ids.filter((id) => choices.has(id)).map((id) => ({ id, choice: choices.get(id) }));
    return JSON.stringify({ format: 1, fingerprint, rater: rater.value.trim(), ratings }, null, 1);
  }

  function save() {
    try {
      localStorage.setItem(key, content());
      return true;
    } catch {
      return false;
    }
  }

  function show(saved = true) {
    pairs.forEach((pair, index) => { pair.hidden = active && index !== position; });
    const choice = choices.get(ids[position]);
    for (const button of section.querySelectorAll("[data-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choice === choice));
    }
    [...pairs[position].querySelectorAll(".side")].forEach((side, index) => {
      side.classList.toggle("chosen", active && choice === ["left", "right"][index]);
    });
    const place = active ? `Pair ${position + 1}; ` : "";
    const done = choices.size === ids.length ? "; complete: download the ratings" : "";
    const unsaved = saved ? "" : "; this browser does not store them: download before you leave";
    find("output").textContent = `${place}${choices.size} of ${ids.length} rated${done}${unsaved}`;
    find("progress").value = choices.size;
    find("[data-do=discard]").hidden = active || !choices.size;
  }

  function move(target) {
    position = Math.min(Math.max(target, 0), ids.length - 1);
    show();
    scrollTo(0, 0);
  }

  function choose(choice) {
    choices.set(ids[position], choice);
    const saved = save();
    const order = [...ids.keys()].map((step) => (position + 1 + step) % ids.length);
    const next = order.find((index) => !choices.has(ids[index]));
    if (next !== undefined) move(next);
    show(saved);
  }

  function activate(on) {
    active = details.open = on;
    document.documentElement.classList.toggle("rating", on);
    find("[data-do=close]").hidden = find(".choices").hidden = !on;
    find("[data-do=start]").hidden = on;
    if (on) {
      const first = ids.findIndex((id) => !choices.has(id));
      document.activeElement.blur();
      move(first < 0 ? position : first);
    } else {
      show();
      section.scrollIntoView();
    }
  }

  function download() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content() + "\n"], { type: "application/json" }));
    downloaded = content();
    link.download = `ratings-${rater.value.trim().replace(/[^\p{L}\p{N}]+/gu, "-") || "anonymous"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function discard() {
    if (content() !== downloaded && !confirm("These ratings have not been downloaded. Discard them?")) return;
    choices.clear();
    rater.value = "";
    position = 0;
    show(save());
  }

  const actions = {
    start: () => activate(true),
    close: () => activate(false),
    previous: () => move(position - 1),
    next: () => move(position + 1),
    download,
    discard,
  };

  section.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.choice) choose(button.dataset.choice);
    else actions[button.dataset.do]();
    button.blur();
  });
  rater.addEventListener("input", save);
  document.addEventListener("keydown", (event) => {
    if (!active || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return activate(false);
    if (event.target === rater) return;
    const choice = choiceOfKey[event.key.toLowerCase()];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (choice && !event.repeat) choose(choice);
    else if (step) move(position + step);
    else return;
    event.preventDefault();
  });

  load();
  find(".desk").hidden = false;
  show();
})();
