"use strict";
// A model: its two networks in onnxruntime-web, from a context to a response and its attention.

const PATIENCE = 10; // milliseconds between looks at other messages
const YIELD = new MessageChannel();
let lastLook = 0;

function otherMessages() { // lets the worker read a message that cancels a response
  if (performance.now() - lastLook < PATIENCE) return null;
  return new Promise((done) => {
    YIELD.port1.onmessage = () => {
      lastLook = performance.now();
      done();
    };
    YIELD.port2.postMessage(null);
  });
}

function halfFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return exponent === 31 ? sign * (fraction ? NaN : Infinity) : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

function unplaned(bytes, size) { // little-endian numbers of planes of bytes, highest first
  const count = bytes.length / size, result = new Uint8Array(bytes.length);
  for (let plane = 0; plane < size; plane++) {
    for (let place = 0; place < count; place++) result[place * size + size - 1 - plane] = bytes[plane * count + place];
  }
  return result.buffer;
}

// Float32 numbers of all tensors; see weights.py.
function expanded(data, kinds) {
  const result = new Float32Array(kinds.reduce((sum, [, rows, columns]) => sum + rows * columns, 0));
  const halves = Float32Array.from({ length: 65536 }, (_, bits) => halfFloat(bits));
  let start = 0, end = 0;
  const take = (count) => data.subarray(start, start += count);
  for (const [kind, rows, columns] of kinds) {
    const numbers = result.subarray(end, end += rows * columns);
    if (kind === "float32") numbers.set(new Float32Array(unplaned(take(4 * numbers.length), 4)));
    else if (kind === "float16") new Uint16Array(unplaned(take(2 * numbers.length), 2)).forEach((bits, place) => { numbers[place] = halves[bits]; });
    else {
      const scales = new Float32Array(unplaned(take(4 * rows), 4));
      const whole = new Int8Array(take(numbers.length));
      numbers.forEach((_, place) => { numbers[place] = whole[place] * scales[Math.floor(place / columns)]; });
    }
  }
  return new Uint8Array(result.buffer);
}

function selected({ type, data, dims }, rows) { // rows of a tensor
  const size = data.length / dims[0], result = new data.constructor(size * rows.length);
  rows.forEach((row, place) => result.set(data.subarray(row * size, (row + 1) * size), place * size));
  return { type, data: result, dims: [rows.length, ...dims.slice(1)] };
}

class Model {
  static async open(ort, description, encoder, step, weights) {
    const options = { externalData: [{ path: "weights.bin", data: expanded(weights, description.weights) }], logSeverityLevel: 3 };
    const sessions = [await ort.InferenceSession.create(encoder, options), await ort.InferenceSession.create(step, options)];
    return new Model(ort, description, ...sessions);
  }

  constructor(ort, description, encoder, stepper) {
    Object.assign(this, { ort, ...description, encoder, stepper });
    const { special, next, state } = this.networks;
    this.special = special;
    this.changes = state.filter((name) => stepper.outputNames.includes(next + name)); // tensors of the state that a step replaces
    this.tokenizer = new Tokenizer(description.tokenizer);
  }

  async run(session, feeds, wanted) {
    const tensors = Object.fromEntries(Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new this.ort.Tensor(type, data, dims)]));
    return session.run(tensors, wanted);
  }

  tokens(rows) { // [B, T]
    return { type: "int64", data: BigInt64Array.from(rows.flat(), BigInt), dims: [rows.length, rows[0].length] };
  }

  start(source) { // tensors of memory and first state
    const mask = { type: "bool", data: new Uint8Array(source.length).fill(1), dims: [1, source.length] };
    return this.run(this.encoder, { source: this.tokens([source]), mask });
  }

  // Read tokens [B, T] and replace the state in the tensors; return the outputs.
  async advance(tokens, tensors, wanted) {
    const { next } = this.networks;
    const result = await this.run(this.stepper, { tokens: this.tokens(tokens), ...tensors }, [...wanted, ...this.changes.map((name) => next + name)]);
    for (const name of this.changes) tensors[name] = result[next + name];
    return result;
  }

  sourceOf(context) {
    return sourceOf(context, this.tokenizer, this.reading, this.special);
  }

  // Tokens of a response; isCancelled() ends it with an error.
  async respond(source, settings, { emit, uniform, isCancelled = () => false } = {}) {
    const width = settings.width ?? 1;
    const tensors = await this.start(source);
    const { memory, state } = this.networks;
    for (const name of [...memory, ...state]) tensors[name] = selected(tensors[name], Array(width).fill(0));
    const step = async (last, rows) => {
      await otherMessages();
      if (isCancelled()) throw new DOMException("cancelled", "AbortError");
      if (rows.some((row, place) => row !== place)) for (const name of state) tensors[name] = selected(tensors[name], rows);
      const { logits } = await this.advance(last.map((token) => [token]), tensors, ["logits"]);
      const size = logits.data.length / width;
      return last.map((_, row) => logits.data.subarray(row * size, (row + 1) * size));
    };
    const constraints = new Constraints(this.limits, source, this.special.end);
    return search(step, this.special.begin, constraints, settings, { emit, uniform });
  }

  // Cross-attention over the source while a response is read: each map is [heads][rows][columns].
  async attention(source, response) {
    const { attention, several_tokens } = this.networks;
    const tensors = await this.start(source);
    const read = [this.special.begin, ...response]; // the last row predicts the end token
    const results = [];
    for (const part of several_tokens ? [read] : read.map((token) => [token])) results.push(await this.advance([part], tensors, attention));
    return attention.filter((name) => results[0][name].dims.at(-1) === source.length).map((name) => {
      const heads = results[0][name].dims[1];
      const rowsOf = ({ data, dims: [, , rows, columns] }, head) => Array.from({ length: rows }, (_, row) => data.slice((head * rows + row) * columns, (head * rows + row + 1) * columns));
      return { name: name.replace("attention.", ""), heads: Array.from({ length: heads }, (_, head) => results.flatMap((result) => rowsOf(result[name], head))) };
    });
  }
}
