"use strict";
// The questions of one or two runs, with filters, and each answer's hits in the lines of the documents.

import { get, link, make, runPicker, table } from "/page/view.js";
import { lazy, passage, wholeDocument } from "/page/passages.js";

const TONES = ["good", "near", "near", "bad", "bad", "soft"];
const SIGNS = ["●", "◐", "◔", "○", "✕", "–"];
const SHOWN_HITS = 5;

function picker(label, name, choices, chosen) {
  const select = make("select", { name });
  for (const [value, text] of choices) select.append(make("option", { value }, text));
  select.value = chosen ?? "";
  return make("label", {}, label, select);
}

const plainly = (values) => [["", "any"], ...values.map((value) => [value, value])];

// A name with the sign of its outcome. Screen readers and the legend get the outcome as text.
const sign = (kind, ...words) =>
  make("span", { class: `chip ${TONES[kind]}` }, make("span", { "aria-hidden": "true" }, `${SIGNS[kind]} `), ...words);

function chips(answers, outcomes, number, several) {
  const box = make("span", { class: "chips" });
  if (several) box.append(make("span", { class: "soft" }, number ? "before:" : "now:"), " ");
  for (const [predictor, repeat, outcome] of answers) {
    const name = predictor + (repeat ? `, repeat ${repeat + 1}` : "");
    box.append(sign(outcome, name, make("span", { class: "unseen" }, ` ${outcomes[outcome]}`)), " ");
  }
  return box;
}

function hits(opened, row, gold) {
  const { run, passages, documents } = opened;
  const marks = [["soft", ""], ["near", " its page"], ["good", " gold"]];
  const everything = opened.question[5].flatMap((each) =>
    each[6].slice(0, SHOWN_HITS).map(([source, first, last], rank) =>
      [run.sources[source], first, last, `${run.predictors[each[0]]} ${rank + 1}`]));
  return make("ol", { class: "hits" }, ...row[6].map(([number, first, last, score, right], rank) => {
    const source = run.sources[number];
    const title = [`${rank + 1}. ${source}:${first}-${last} `, make("span", { class: "soft" }, String(score)),
      make("span", { class: marks[right][0] }, marks[right][1])];
    if (rank >= SHOWN_HITS) return make("li", {}, ...title);
    return make("li", {}, lazy({ class: "hit" }, title, async () => {
      const parts = [passage(passages[source], [source, first, last], gold)];
      if (documents) parts.push(inDocument(source, first, gold, everything));
      return parts;
    }));
  }));
}

function inDocument(source, first, gold, found) {
  const details = lazy({ class: "hit" }, ["The whole document"], async () => [await wholeDocument(source, gold, found)]);
  const scroll = () => details.querySelector(`.document [data-line="${first}"]`)?.scrollIntoView({ block: "center" });
  details.addEventListener("toggle", () => details.open && setTimeout(scroll, 300));
  return details;
}

function goldOf(opened, gold) {
  const [, , , answerable] = opened.question;
  const parts = answerable ? [] : [make("p", {}, "The corpus does not answer this question.")];
  opened.question[4].forEach(([, first, last, quote], place) => {
    const source = gold[place][0];
    parts.push(lazy({ class: "hit" }, [make("strong", {}, "Gold "), source + (first === null ? "" : `:${first}-${last}`)],
      async () => [first === null ? make("p", {}, quote || "The whole file.")
        : passage(opened.passages[source], [source, first, last], gold)]));
  });
  return parts;
}

function answers(opened, title) {
  const { run } = opened;
  const gold = opened.question[4].map(([source, first, last]) => [run.sources[source], first, last]);
  const parts = [...(title ? [make("h3", { class: "of" }, title)] : []), ...goldOf(opened, gold)];
  for (const row of opened.question[5]) {
    const name = run.predictors[row[0]] + (row[1] ? `, repeat ${row[1] + 1}` : "");
    const outcome = make("span", { class: TONES[row[2]] }, run.outcomes[row[2]]);
    parts.push(make(title ? "h4" : "h3", {}, `${name}: `, outcome, row[3] ? `, lost at ${row[3]}` : ""));
    if (row[4]) parts.push(make("p", { class: "bad" }, row[4]));
    for (const fallback of row[7]) parts.push(make("p", { class: "near" }, `Fallback: ${fallback}`));
    if (row[5].length && opened.question[3]) {
      const path = row[5].map(([stage, rank]) => `${run.stages[stage]} ${rank ?? "absent"}`).join(" → ");
      parts.push(make("p", { class: "soft" }, `Rank of the gold: ${path}`));
    }
    parts.push(row[6].length ? hits(opened, row, gold) : make("p", { class: "soft" }, "No hits."));
  }
  return make("div", { class: "answer" }, ...parts);
}

function entry([id, text, byRun], data, asked, run) {
  const several = byRun.length > 1;
  const summary = [make("span", { class: "id" }, id), make("span", { class: "text" }, text),
    ...byRun.map((found, number) => chips(found, data.outcomes, number, several))];
  return lazy({ class: "question", "data-question": id }, summary, async () => {
    const opened = await get("/api/question", { ...asked, id });
    const titles = opened.map((each, number) => (several ? `${number ? "Before" : "Now"}: ${each.experiment}, ${each.created.slice(0, 16)}` : ""));
    return [make("div", { class: several ? "beside" : "" }, ...opened.map((each, number) => answers(each, titles[number]))),
      make("p", {}, link("/label", { run, question: id }, "Label this question"))];
  });
}

function tally(data, several) {
  const share = (count, of) => (of ? `${((100 * count) / of).toFixed(1)}%` : "–");
  const rows = data.tally.map(([number, name, of, ...counts]) =>
    [several ? `${name} (${number ? "before" : "now"})` : name, String(of), ...counts.map((count) => share(count, of))]);
  return table("Rates of the filtered questions, exploratory", ["predictor", "answers", "strict hit@1", "strict hit@5", "relaxed hit@5"], rows);
}

export async function show(view, given) {
  const { runs } = await get("/api/runs");
  const [picks, chosen] = runPicker(runs, given, true);
  view.append(picks);
  if (!chosen.run) return;
  const form = make("form", { class: "filters", role: "search", "aria-label": "Filter the questions" });
  const count = make("p", { id: "count", "aria-live": "polite" });
  const [rates, legend] = [make("div"), make("p", { class: "chips", id: "legend" })];
  const [list, pager] = [make("div", { id: "list" }), make("p", { class: "pager" })];
  view.append(form, count, rates, legend, make("h2", { class: "unseen" }, "List of questions"), list, pager);
  const asked = Object.fromEntries([["run", chosen.run], ["against", chosen.against]].filter(([, value]) => value));
  let latest = 0;

  function controls(data) {
    form.append(
      picker("Predictor", "predictor", plainly(data.predictors), given.get("predictor")),
      picker("Outcome", "outcome", [...plainly(data.outcomes), ["disagree", "predictors disagree"]], given.get("outcome")),
      picker("Gold lost at", "lost", plainly(data.stages), given.get("lost")),
      ...(asked.against ? [picker("Changed", "change", [["", "any or no change"], ["any", "changed"], ["better", "better now"], ["worse", "worse now"]], given.get("change"))] : []),
      ...data.slices.map(([name, values]) =>
        picker(name[0].toUpperCase() + name.slice(1), `slice:${name}`, plainly(values), given.get(`slice:${name}`))),
      make("label", {}, "Words or id", make("input", { name: "words", type: "search", autocomplete: "off", value: given.get("words") || "" })));
    legend.append(...data.outcomes.map((outcome, kind) => sign(kind, outcome)));
  }

  const wanted = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));

  async function turn(page, first = false) {
    const number = ++latest;
    const query = { ...(first ? Object.fromEntries(given) : wanted()), ...asked, page };
    const data = await get("/api/questions", query);
    if (number !== latest) return; // a later request has been answered
    if (first) controls(data);
    else history.replaceState(null, "", `?${new URLSearchParams(query)}`);
    count.textContent = `${data.found} of ${data.total} questions`;
    rates.replaceChildren(...(data.tally.length ? [tally(data, Boolean(asked.against))] : []));
    list.replaceChildren(...data.questions.map((question) => entry(question, data, asked, chosen.run)));
    const button = (text, to, possible) => {
      const made = make("button", { type: "button" }, text);
      made.disabled = !possible;
      made.addEventListener("click", async () => {
        await turn(to);
        count.scrollIntoView();
      });
      return made;
    };
    pager.replaceChildren(button("Previous", data.page - 1, data.page > 0), `Page ${data.page + 1} of ${data.pages}`,
      button("Next", data.page + 1, data.page + 1 < data.pages));
  }

  form.addEventListener("input", () => turn(0));
  form.addEventListener("submit", (event) => event.preventDefault());
  await turn(given.get("page") || 0, true);
  const opened = given.get("open");
  if (opened) list.querySelector("details").open = true;
}
