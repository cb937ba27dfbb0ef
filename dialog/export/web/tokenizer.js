"use strict";
// Byte-level BPE. No text becomes a special token: those are added by their ids.

const WORDS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const OUTER_SPACE = /^[\p{White_Space}\x1c-\x1f]+|[\p{White_Space}\x1c-\x1f]+$/gu; // what Python's strip() removes
const SPECIALS = 6; // ids 0 to 5

class Tokenizer {
  constructor({ tokens, merges }) {
    this.tokens = tokens;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank])); // no token has a space
    this.letters = []; // of each byte
    let next = 256;
    for (let byte = 0; byte < 256; byte++) {
      const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
      this.letters.push(String.fromCharCode(printable ? byte : next++));
    }
    this.bytes = new Map(this.letters.map((letter, byte) => [letter, byte]));
    this.words = new Map(); // ids of words that have occurred
  }

  encode(text) {
    return (text.toWellFormed?.() ?? text).normalize("NFC").match(WORDS)?.flatMap((word) => this.encodeWord(word)) ?? [];
  }

  encodeWord(word) {
    if (this.words.has(word)) return this.words.get(word);
    const parts = [...new TextEncoder().encode(word)].map((byte) => this.letters[byte]);
    for (;;) {
      let best = Infinity, place = -1;
      for (let at = 0; at + 1 < parts.length; at++) {
        const rank = this.ranks.get(`${parts[at]} ${parts[at + 1]}`);
        if (rank < best) [best, place] = [rank, at];
      }
      if (place < 0) break;
      parts.splice(place, 2, parts[place] + parts[place + 1]);
    }
    const ids = parts.map((part) => this.ids.get(part));
    this.words.set(word, ids);
    return ids;
  }

  bytesOf(ids) {
    return Uint8Array.from(ids.filter((id) => id >= SPECIALS).flatMap((id) => [...this.tokens[id]].map((letter) => this.bytes.get(letter))));
  }

  decode(ids) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytesOf(ids));
  }

  // Groups of successive places whose tokens are whole characters together: [first, end].
  groups(ids) {
    const groups = [];
    let first = 0;
    ids.forEach((id, place) => {
      const isWhole = id < SPECIALS || place + 1 === ids.length || ids[place + 1] < SPECIALS || !this.decode(ids.slice(first, place + 1)).endsWith("\ufffd");
      if (!isWhole) return;
      groups.push([first, place + 1]);
      first = place + 1;
    });
    return groups;
  }
}

// The source of a context, a list of turns of two alternating speakers; see dialog/data/store/layout.py.
function sourceOf(turns, tokenizer, { maxSource, contextTurns, normalise, layout, silence }, special) {
  const room = maxSource + (layout === "roles" ? 0 : 2);
  const before = silence !== null && turns.length % 2 === 0 ? [special.self, ...silence].slice(0, Math.floor(room / 2)) : [];
  const read = contextTurns === null ? turns : turns.slice(Math.max(0, turns.length - contextTurns));
  const ids = [], roles = [];
  read.forEach((turn, place) => {
    const role = (read.length - place) % 2 ? special.other : special.self;
    const tokens = tokenizer.encode(normalise ? turn.replace(OUTER_SPACE, "") : turn);
    ids.push(role, ...tokens);
    roles.push(...Array(1 + tokens.length).fill(role));
  });
  const start = Math.max(0, ids.length - (room - before.length - 1));
  const source = [...before, ...roles.slice(start, start + 1), ...ids.slice(start + 1), special.end];
  if (layout === "roles") return source;
  const inner = source.slice(1, -1).map((id) => id === special.self || id === special.other ? special.unknown : id);
  return inner.length ? inner : [special.unknown];
}
