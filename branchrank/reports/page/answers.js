"use strict";
// What report.html and `branchrank view` share: elements, filters, and the answers to a question with their
// passages. The functions are global, because report.html contains its scripts.

// The tones of a verdict and of an outcome are classes of the style sheet.
const OUTCOME_TONES = ["good", "near", "near", "bad", "bad", "soft", "soft", "soft"];
const SIGNS = ["●", "◐", "◔", "○", "✕", "–", "–", "–"];
const SHOWN_HITS = 5, AROUND = 2, LONGEST = 200;

// Text is added as text nodes, so that the text of runs and documents is never parsed as markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function table(caption, headings, rows, labels = 1) {
  const figure = (place) => (place < labels ? {} : { class: "figure" });
  const cells = (row) => row.map((cell, place) =>
    cell instanceof Element && cell.matches("td") ? cell
      : place === 0 ? make("th", { scope: "row" }, cell) : make("td", figure(place), cell));
  return make("div", { class: "table", role: "region", "aria-label": caption, tabindex: "0" }, make("table", {},
    make("caption", {}, make("span", {}, caption)),
    make("thead", {}, make("tr", {}, ...headings.map((text, place) => make("th", { scope: "col", ...figure(place) }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row))))));
}

// Each row is a name, the number of answers, and the numbers of answers with each of the three best outcomes.
function ratesTable(rows) {
  const share = (count, of) => (of ? `${((100 * count) / of).toFixed(1)}%` : "–");
  return table("Rates of the filtered questions, exploratory",
    ["predictor", "answers", "strict hit@1", "strict hit@5", "relaxed hit@5"],
    rows.map(([name, of, ...counts]) => [name, String(of), ...counts.map((count) => share(count, of))]));
}

function picker(label, name, choices, chosen = "") {
  const select = make("select", { name });
  for (const [value, text] of choices) select.append(make("option", { value }, text));
  select.value = chosen ?? "";
  return make("label", {}, label, select);
}

function pager(page, pages, turn) {
  const button = (text, to) => {
    const made = make("button", { type: "button" }, text);
    made.disabled = to < 0 || to >= pages;
    made.addEventListener("click", () => turn(to));
    return made;
  };
  return [button("Previous", page - 1), `Page ${page + 1} of ${pages}`, button("Next", page + 1)];
}

// A <details> element whose content is made when it is first opened.
function lazy(attributes, summary, content) {
  const details = make("details", attributes, make("summary", {}, ...summary));
  let begun = false;
  details.addEventListener("toggle", async () => {
    if (!details.open || begun) return;
    begun = true;
    try {
      details.append(...(await content()));
    } catch (error) {
      begun = false; // closing and opening tries again
      details.querySelector(":scope > .bad")?.remove();
      details.append(make("p", { class: "bad" }, error.message));
    }
  });
  return details;
}

// A name with the sign of its outcome. Screen readers and the legend get the outcome as text.
const sign = (kind, ...words) =>
  make("span", { class: `chip ${OUTCOME_TONES[kind]}` }, make("span", { "aria-hidden": "true" }, `${SIGNS[kind]} `), ...words);

const named = (predictor, repeat) => predictor + (repeat ? `, repeat ${repeat + 1}` : "");

// The chips of a question's answers, each a predictor, a repeat and an outcome.
const chipsOf = (answers, outcomes) => answers.flatMap(([predictor, repeat, outcome]) =>
  [sign(outcome, named(predictor, repeat), make("span", { class: "unseen" }, ` ${outcomes[outcome]}`)), " "]);

const placeOf = ([source, first, last]) => source + (first === null ? "" : `:${first}-${last}`);
const isGold = (gold, source, line) => gold.some(([s, first, last]) => s === source && first !== null && first <= line && line <= last);

// One line. The number is drawn by the style sheet, so that it is not part of copied text.
function lineOf(number, text, gold, { around = false, note = "" } = {}) {
  const line = make("span", { class: around ? "around" : "own", "data-line": number }, text || " ");
  if (note) line.append(make("em", { class: "found" }, `  ← ${note}`));
  return gold ? make("mark", {}, line) : line;
}

// The lines of one passage, with the gold marked. Each source has blocks [first line, lines].
function passage(passages, place, gold) {
  const [source, first, last] = place;
  const end = Math.min(last, first + LONGEST - 1);
  const box = make("pre", { class: "passage", tabindex: "0", "aria-label": `Text of ${placeOf(place)}` });
  for (const [start, lines] of Object.hasOwn(passages, source) ? passages[source] : []) {
    lines.forEach((text, offset) => {
      const line = start + offset;
      if (line < first - AROUND || line > end + AROUND) return;
      box.append(lineOf(line, text, isGold(gold, source, line), { around: line < first || line > end }));
    });
  }
  return box.childNodes.length ? box : make("p", { class: "soft" }, "The text of this passage is not available.");
}

// The gold and the answers of one question, whose parts are explained in branchrank/report/browser.py.
// more(place, gold) makes what follows the passage of a hit. With beside, the gold is beside the answers, and its
// text and that of the first hit of each answer whose first hit is wrong are open.
function answersOf({ run, question, passages, beside = false }, title = "", more = () => []) {
  const [, , , answerable, items, rows] = question;
  const gold = items.map(([source, first, last]) => [run.sources[source], first, last]);
  const marks = [["soft", ""], ["near", " its page"], ["good", " gold"]];
  const shown = (open) => ({ class: "hit", ...(beside && open && Object.keys(passages()).length ? { open: "" } : {}) });
  const hit = (wrong) => ([source, first, last, score, right], rank) => {
    const place = [run.sources[source], first, last];
    const words = [`${rank + 1}. ${placeOf(place)} `, make("span", { class: "soft" }, String(score)),
      make("span", { class: marks[right][0] }, marks[right][1])];
    return make("li", {}, ...(rank < SHOWN_HITS
      ? [lazy(shown(wrong && !rank), words, () => [passage(passages(), place, gold), ...more(place, gold)])] : words));
  };
  const head = title ? [make("h3", { class: "of" }, title)] : [];
  if (!answerable) head.push(make("p", {}, "The corpus does not answer this question."));
  const golds = items.map(([, first, , quote, need], number) =>
    lazy(shown(number < SHOWN_HITS), [make("strong", {}, need ? `Gold, need ${need} ` : "Gold "), placeOf(gold[number])], () =>
      [first === null ? make("p", {}, quote || "The whole file.") : passage(passages(), gold[number], gold)]));
  const parts = [];
  for (const [predictor, repeat, outcome, lost, error, ranks, hits, fallbacks, , known] of rows) {
    parts.push(make(title ? "h4" : "h3", {}, `${named(run.predictors[predictor], repeat)}: `,
      make("span", { class: OUTCOME_TONES[outcome] }, run.outcomes[outcome]), lost ? `, lost at ${lost}` : ""));
    if (error) parts.push(make("p", { class: "bad" }, error));
    for (const fallback of fallbacks) parts.push(make("p", { class: "near" }, `Fallback: ${fallback}`));
    if (ranks.length && answerable) {
      const path = ranks.map(([stage, rank]) => `${run.stages[stage]} ${rank ?? "absent"}`).join(" → ");
      parts.push(make("p", { class: "soft" }, `Rank of the gold: ${path}`));
    }
    if (known.length) parts.push(make("p", {}, `What would have found it: ${known.join("; ")}`));
    const wrong = outcome > 0 && outcome < 5;
    parts.push(hits.length ? make("ol", { class: "hits" }, ...hits.map(hit(wrong))) : make("p", { class: "soft" }, "No hits."));
  }
  if (!beside || !golds.length) return make("div", { class: "answer" }, ...head, ...golds, ...parts);
  const columns = [make("div", { class: "golds" }, ...golds), make("div", {}, ...parts)];
  return make("div", { class: "answer" }, ...head, make("div", { class: "beside" }, ...columns));
}

const summaryOf = (id, text, ...more) => [make("span", { class: "id" }, id), make("span", { class: "text" }, text), ...more];
