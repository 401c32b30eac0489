"use strict";
// Lines of documents with the gold and the hits marked.

import { get, make } from "/page/view.js";

const AROUND = 2, LONGEST = 200;

// One line. The number is drawn by the style sheet, so that it is not part of copied text.
export function lineOf(number, text, { gold = false, around = false, note = "" } = {}) {
  const line = make("span", { class: around ? "around" : "own", "data-line": number }, text || " ");
  if (note) line.append(make("em", { class: "found" }, `  ← ${note}`));
  return gold ? make("mark", {}, line) : line;
}

const inGold = (gold, source, line) => gold.some(([s, first, last]) => s === source && first !== null && first <= line && line <= last);

// The lines of one passage from the blocks of text that the server sent.
export function passage(blocks, place, gold) {
  const [source, first, last] = place;
  const end = Math.min(last, first + LONGEST - 1);
  const box = make("pre", { class: "passage", tabindex: "0", "aria-label": `Text of ${source}:${first}-${last}` });
  for (const [start, lines] of blocks || []) {
    lines.forEach((text, offset) => {
      const line = start + offset;
      if (line < first - AROUND || line > end + AROUND) return;
      box.append(lineOf(line, text, { gold: inGold(gold, source, line), around: line < first || line > end }));
    });
  }
  return box.childNodes.length ? box : make("p", { class: "soft" }, "The text of this passage is not available.");
}

// A whole document. found is a list of [source, first, last, words], whose words stand beside their first line.
export async function wholeDocument(source, gold, found) {
  const { lines } = await get("/api/document", { source });
  const notes = new Map(), hit = new Set();
  for (const [place, first, last, words] of found) {
    if (place !== source) continue;
    notes.set(first, [...(notes.get(first) || []), words]);
    for (let line = first; line <= last; line++) hit.add(line);
  }
  const box = make("pre", { class: "passage document", tabindex: "0", "aria-label": `${source} with gold and hits` });
  lines.forEach((text, place) => {
    const line = place + 1;
    const made = lineOf(line, text, { gold: inGold(gold, source, line), note: (notes.get(line) || []).join(", ") });
    if (hit.has(line)) made.classList.add("hitline");
    box.append(made);
  });
  return box;
}

// A <details> element whose content is made when it is first opened.
export function lazy(attributes, summary, content) {
  const details = make("details", attributes, make("summary", {}, ...summary));
  let begun = false;
  details.addEventListener("toggle", async () => {
    if (!details.open || begun) return;
    begun = true;
    try {
      details.append(...(await content()));
    } catch (error) {
      details.append(make("p", { class: "bad" }, error.message));
    }
  });
  return details;
}
