"use strict";
// Computes the models beside the page, one task after the other; a task can be cancelled.

const models = [];
let queue = Promise.resolve();
const cancelled = new Set();

const TASKS = {
  async start({ script, wasm }) {
    globalThis.ort = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    Object.assign(ort.env.wasm, { wasmBinary: wasm, numThreads: 1, proxy: false });
  },

  async open({ description, encoder, step, weights }) {
    models.push(await Model.open(ort, description, encoder, step, weights));
    return { search: description.search, number: models.length - 1 };
  },

  // draws: numbers in [0, 1) for sampling; by default random ones
  async respond({ id, number, context, settings, draws }) {
    const model = models[number], source = model.sourceOf(context), decode = (tokens) => model.tokenizer.decode(tokens);
    const response = await model.respond(source, settings, {
      emit: (tokens) => postMessage({ id, text: decode(tokens).replace(/\ufffd+$/, "") }),
      uniform: draws ? () => draws.shift() : Math.random,
      isCancelled: () => cancelled.has(id),
    });
    return { text: decode(response), source, response };
  },

  async attention({ number, source, response }) {
    const model = models[number];
    return { columns: pieces(model, source), rows: pieces(model, [...response, model.special.end]), maps: await model.attention(source, response) };
  },
};

function pieces(model, ids) { // what people read, with the places of its tokens [first, end]
  const names = new Map(Object.entries(model.special).map(([name, id]) => [id, name]));
  return model.tokenizer.groups(ids).map(([first, end]) => ({ text: model.tokenizer.decode(ids.slice(first, end)), special: names.get(ids[first]) ?? "", first, end }));
}

onmessage = ({ data }) => {
  const { id, task } = data;
  if (task === "cancel") {
    cancelled.add(data.cancels);
    return;
  }
  queue = queue.then(async () => {
    try {
      if (cancelled.has(id)) throw new DOMException("cancelled", "AbortError");
      postMessage({ id, result: await TASKS[task](data) });
    } catch (error) {
      postMessage({ id, error: { name: error.name, message: error.message } });
    }
    cancelled.delete(id);
  });
};
