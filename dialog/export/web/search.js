"use strict";
// Greedy search, sampling and beam search over one source; see dialog/generation.
//
// step(tokens, rows) reads one token for each row of the beam and returns the logits of the next ones; row k
// continues what row rows[k] has read.

function logSoftmax(logits) {
  const values = new Float64Array(logits), highest = values[bestOf(values)];
  let sum = 0;
  for (let place = 0; place < values.length; place++) sum += Math.exp(values[place] - highest);
  const shift = highest + Math.log(sum);
  for (let place = 0; place < values.length; place++) values[place] -= shift;
  return values;
}

function bestOf(values) { // place of the first largest value
  let best = 0;
  for (let place = 1; place < values.length; place++) if (values[place] > values[best]) best = place;
  return best;
}

function largest(values, count) { // places of the largest values, in descending order
  const best = [];
  for (let place = 0; place < values.length; place++) {
    const value = values[place];
    if (best.length === count && !(value > values[best[count - 1]])) continue;
    let at = best.length;
    while (at > 0 && value > values[best[at - 1]]) at--;
    best.splice(at, 0, place);
    if (best.length > count) best.pop();
  }
  return best;
}

class Constraints {
  constructor(limits, source, end) {
    Object.assign(this, { limits, source, end });
    this.longest = limits.max_length;
    this.penalises = limits.repetition_penalty !== 1 || limits.frequency_penalty !== 0;
  }

  // Log-probabilities of the next token, -Infinity where it is excluded.
  preferences(logits, prefix) {
    const { limits, end } = this;
    const values = logSoftmax(this.penalises ? this.penalised(logits, prefix) : logits);
    if (prefix.length < limits.prefix.length) {
      const token = limits.prefix[prefix.length];
      return values.map((value, place) => place === token ? Math.max(value, -Number.MAX_VALUE) : -Infinity);
    }
    for (const token of limits.special) values[token] = -Infinity;
    const last = values[end];
    this.block(values, limits.no_repeat_ngram, prefix, prefix);
    this.block(values, limits.block_context_ngram, this.source, prefix);
    values[end] = last; // a source ends with it, and may end like the response
    if (prefix.length < limits.min_length) {
      values[end] = -Infinity;
      if (values.every((value) => value === -Infinity)) values[end] = logSoftmax(logits)[end];
    }
    return values;
  }

  penalised(logits, prefix) {
    const { repetition_penalty, frequency_penalty } = this.limits;
    const values = Float64Array.from(logits);
    for (const token of new Set(prefix)) {
      values[token] = values[token] > 0 ? values[token] / repetition_penalty : values[token] * repetition_penalty;
      values[token] -= frequency_penalty * prefix.filter((one) => one === token).length;
    }
    return values;
  }

  block(values, order, text, prefix) { // tokens that complete an n-gram of a text
    if (!order || prefix.length < order - 1) return;
    const last = prefix.slice(prefix.length - order + 1);
    for (let start = 0; start + order <= text.length; start++) {
      if (last.every((token, place) => text[start + place] === token)) values[text[start + order - 1]] = -Infinity;
    }
  }
}

// Extend one row by the chosen token until its end token.
async function decodeRow(step, begin, constraints, choose, emit) {
  const tokens = [];
  let last = begin;
  while (tokens.length < constraints.longest) {
    const [logits] = await step([last], [0]);
    last = choose(constraints.preferences(logits, tokens));
    if (last === constraints.end) break;
    tokens.push(last);
    emit(tokens);
  }
  return tokens;
}

// Probabilities to draw from, 0 where truncated.
function truncated(preferences, { temperature, top_k, top_p, min_p }) {
  const highest = preferences[bestOf(preferences)];
  const scaled = logSoftmax(preferences.map((value) => (value - highest) / temperature)).map(Math.exp);
  const order = [...scaled.keys()].sort((one, other) => scaled[other] - scaled[one] || one - other);
  const smallest = top_k ? scaled[order[Math.min(top_k, order.length) - 1]] : 0;
  const kept = scaled.map((value) => value < smallest || value < min_p * scaled[order[0]] ? 0 : value);
  if (top_p < 1) {
    let before = 0;
    for (const place of order) {
      if (before >= top_p) kept[place] = 0;
      before += scaled[place];
    }
  }
  return kept.some((value) => value > 0) ? kept : scaled; // truncations that exclude each other
}

function draw(probabilities, uniform) {
  const point = uniform * probabilities.reduce((sum, value) => sum + value, 0);
  let sum = 0;
  const place = probabilities.findIndex((value) => (sum += value) > point);
  return place < 0 ? probabilities.length - 1 : place;
}

function lengthPenalty({ normalisation, length_penalty }, length) {
  return (normalisation === "gnmt" ? (5 + length) / 6 : length) ** length_penalty;
}

async function beamSearch(step, begin, constraints, settings) {
  const { width, candidates } = settings, { longest, end } = constraints;
  const divisor = (length) => lengthPenalty(settings, length);
  let beams = Array.from({ length: width }, (_, beam) => ({ tokens: [], total: beam ? -Infinity : 0 }));
  let ended = [], count = 0; // the best ended hypotheses, and the number of all
  let last = beams.map(() => begin), rows = beams.map((_, beam) => beam);
  for (let length = 0; ; length++) {
    const logits = await step(last, rows);
    const extensions = beams.flatMap(({ tokens, total }, beam) => {
      const values = constraints.preferences(logits[beam], tokens);
      return largest(values, Math.min(2 * width, values.length)).map((token) => ({ beam, token, total: total + values[token] }));
    });
    const best = largest(extensions.map(({ total }) => total), 2 * width).map((place) => extensions[place]);
    const ending = best.slice(0, width).filter(({ token, total }) => token === end && total > -Infinity);
    count += ending.length;
    ended.push(...ending.map(({ beam, total }) => ({ tokens: beams[beam].tokens, rank: total / divisor(length + 1) })));
    ended = ended.sort((one, other) => other.rank - one.rank).slice(0, candidates);
    if (length === longest) { // open hypotheses come after all ended ones
      const done = new Set(ending.map(({ beam }) => beam));
      const open = beams.filter(({ total }, beam) => total > -Infinity && !done.has(beam));
      const ranked = open.map(({ tokens, total }) => ({ tokens, rank: total / divisor(longest) })).sort((one, other) => other.rank - one.rank);
      return [...ended, ...ranked][0].tokens;
    }
    const open = best.filter(({ token, total }) => token !== end && total > -Infinity).slice(0, width);
    while (open.length < width) open.push({ beam: 0, token: end, total: -Infinity }); // no hypothesis
    const bound = open[0].total / divisor(longest + 1);
    if (count >= width || (ended.length === candidates && ended[candidates - 1].rank >= bound)) return ended[0].tokens;
    if (open[0].total === -Infinity) return ended[0].tokens;
    beams = open.map(({ beam, token, total }) => ({ tokens: [...beams[beam].tokens, token], total }));
    last = open.map(({ token }) => token);
    rows = open.map(({ beam }) => beam);
  }
}

// The tokens of a response without its end token. uniform() returns numbers in [0, 1) for the draws.
function search(step, begin, constraints, settings, { emit = () => {}, uniform = Math.random } = {}) {
  if (settings.name === "beam") return beamSearch(step, begin, constraints, settings);
  const choose = settings.name === "sampling" ? (values) => draw(truncated(values, settings), uniform()) : bestOf;
  return decodeRow(step, begin, constraints, choose, emit);
}
