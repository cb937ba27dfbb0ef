"use strict";
(() => {
  const { study, rater } = document.body.dataset;
  const pairs = [...document.querySelectorAll(".pair")];
  const ids = pairs.map((pair) => pair.dataset.id);
  const key = `dialog-study-${study}-${rater}`;
  const choiceOfKey = { 1: "a", a: "a", 2: "b", b: "b", 0: "tie", t: "tie" };
  const choices = new Map();
  let position = 0;
  let saved = "";

  function load() {
    try {
      for (const [id, choice] of JSON.parse(localStorage.getItem(key)) || []) {
        if (ids.includes(id) && ["a", "b", "tie"].includes(choice)) choices.set(id, choice);
      }
    } catch { /* no storage, or a damaged entry: start with none */ }
  }

  function keep() {
    try {
      localStorage.setItem(key, JSON.stringify([...choices]));
      return true;
    } catch {
      return false;
    }
  }

  function lines() {
    const answered = ids.filter((id) => choices.has(id));
    return answered.map((id) => JSON.stringify({ study, rater, id, choice: choices.get(id) }) + "\n").join("");
  }

  function show(kept = true) {
    pairs.forEach((pair, index) => { pair.hidden = index !== position; });
    for (const button of document.querySelectorAll("[data-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.choice === choices.get(ids[position])));
    }
    const done = choices.size === ids.length ? " All answered: save the answers and send the file back." : "";
    const warning = kept ? "" : " This browser does not keep answers: save them before you leave.";
    document.querySelector("output").textContent = `Pair ${position + 1} of ${ids.length}, ${choices.size} answered.${done}${warning}`;
    document.querySelector("progress").value = choices.size;
  }

  function move(target) {
    position = Math.min(Math.max(target, 0), ids.length - 1);
    show();
    scrollTo(0, 0);
  }

  function choose(choice) {
    choices.set(ids[position], choice);
    const kept = keep();
    const order = [...ids.keys()].map((step) => (position + 1 + step) % ids.length);
    const next = order.find((index) => !choices.has(ids[index]));
    if (next !== undefined) move(next);
    show(kept);
  }

  function save() {
    const link = document.createElement("a");
    saved = lines();
    link.href = URL.createObjectURL(new Blob([saved], { type: "application/x-ndjson" }));
    link.download = `ratings-${study}-${rater}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.choice) choose(button.dataset.choice);
    else if (button.dataset.step) move(position + Number(button.dataset.step));
    else save();
    button.blur();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const choice = choiceOfKey[event.key.toLowerCase()];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (choice) choose(choice);
    else if (step) move(position + step);
    else return;
    event.preventDefault();
  });
  addEventListener("beforeunload", (event) => {
    if (lines() !== saved && !keep()) event.preventDefault();
  });

  load();
  const first = ids.findIndex((id) => !choices.has(id));
  move(Math.max(first, 0));
})();
