"use strict";
// The questions of one or two runs, with filters, and each answer's hits in the lines of the documents.

import { counted, get, link, minute, runPicker, say } from "/page/view.js";

const plainly = (values) => [["", "any"], ...values.map((value) => [value, value])];

function chips(answers, outcomes, number, several) {
  const when = several ? [make("span", { class: "soft" }, number ? "before:" : "now:"), " "] : [];
  return make("span", { class: "chips" }, ...when, ...chipsOf(answers, outcomes));
}

// The answers in one run. If the run's documents are in the workspace, each hit is also shown in its document.
function answers(opened, title) {
  const { run, question, documents } = opened;
  const found = question[5].flatMap(([predictor, , , , , , hits]) =>
    hits.slice(0, SHOWN_HITS).map(([source, first, last], rank) => [run.sources[source], first, last, `${run.predictors[predictor]} ${rank + 1}`]));
  return answersOf({ ...opened, passages: () => opened.passages }, title, (place, gold) => (documents ? [inDocument(place, gold, found)] : []));
}

function inDocument([source, first], gold, found) {
  return lazy({ class: "hit" }, ["The whole document"], async () => {
    const { lines } = await get("/api/document", { source });
    const here = found.filter(([place]) => place === source);
    const box = make("pre", { class: "passage document", tabindex: "0", "aria-label": `${source} with gold and hits` });
    box.append(...lines.map((text, place) => {
      const line = place + 1;
      const note = here.filter(([, start]) => start === line).map(([, , , words]) => words).join(", ");
      const made = lineOf(line, text, isGold(gold, source, line), { note });
      made.classList.toggle("hitline", here.some(([, start, end]) => start <= line && line <= end));
      return made;
    }));
    setTimeout(() => {
      box.scrollTop = box.querySelector(`[data-line="${first}"]`).offsetTop - box.offsetTop - box.clientHeight / 3;
    });
    return [box];
  });
}

function entry([id, text, byRun], data, asked, run) {
  const several = byRun.length > 1;
  const summary = summaryOf(id, text, ...byRun.map((found, number) => chips(found, data.outcomes, number, several)));
  return lazy({ class: "question", "data-question": id }, summary, async () => {
    const opened = await get("/api/question", { ...asked, id });
    const titles = opened.map((each, number) => (several ? `${number ? "Before" : "Now"}: ${each.experiment}, ${minute(each.created)}` : ""));
    return [make("div", { class: several ? "beside" : "" }, ...opened.map((each, number) => answers(each, titles[number]))),
      make("p", {}, link("/label", { run, question: id }, "Label this question"))];
  });
}

// The questions of the workspace, without a run.
async function own(view, given) {
  const words = make("input", { name: "words", type: "search", autocomplete: "off", value: given.get("words") || "" });
  const form = make("form", { class: "filters", role: "search", "aria-label": "Filter the questions" }, make("label", {}, "Words or id", words));
  const [count, list, end] = [make("p", { id: "count", "aria-live": "polite" }), make("div", { id: "list" }), make("p", { class: "pager" })];
  view.append(form, count, make("h2", { class: "unseen" }, "List of questions"), list, end);
  async function turn(page) {
    const data = await get("/api/questions", { words: words.value, page });
    count.textContent = `${counted(data.found, "question")} in ${data.file}`;
    list.replaceChildren(...data.questions.map(([id, text, [gold, answerable]]) => make("div", { class: "own-question" },
      link("/label", { question: id }, text),
      make("span", { class: answerable ? "soft" : "near" }, `${id} · ${answerable ? gold.map(placeOf).join(", ") : "not answered by the documents"}`))));
    end.replaceChildren(...(data.pages > 1 ? pager(data.page, data.pages, turn) : []));
  }
  form.addEventListener("input", () => turn(0).catch((error) => say(error.message)));
  form.addEventListener("submit", (event) => event.preventDefault());
  await turn(0);
}

const tally = (data, several) => ratesTable(data.tally.map(([number, name, ...counts]) =>
  [several ? `${name} (${number ? "before" : "now"})` : name, ...counts]));

export async function show(view, given) {
  const { runs } = await get("/api/runs");
  const [picks, chosen] = runPicker(runs, given, true, "no run: the question file");
  view.append(picks);
  if (!chosen.run) return own(view, given);
  const form = make("form", { class: "filters", role: "search", "aria-label": "Filter the questions" });
  const count = make("p", { id: "count", "aria-live": "polite" });
  const [rates, legend] = [make("div"), make("p", { class: "chips", id: "legend" })];
  const [list, end] = [make("div", { id: "list" }), make("p", { class: "pager" })];
  view.append(form, count, rates, legend, make("h2", { class: "unseen" }, "List of questions"), list, end);
  const asked = Object.fromEntries([["run", chosen.run], ["against", chosen.against], ["other", given.get("other")]].filter(([, value]) => value));
  let latest = 0;

  function controls(data) {
    const more = make("details", { class: "more" }, make("summary", {}, "More filters"), make("div", { class: "filters" },
      picker("Predictor", "predictor", plainly(data.predictors), given.get("predictor")),
      picker("Gold lost at", "lost", plainly(data.stages), given.get("lost")),
      ...(asked.against ? [picker("Changed", "change", [["", "any"], ["any", "changed"], ["better", "better now"], ["worse", "worse now"]], given.get("change"))] : []),
      ...data.slices.map(([name, values]) =>
        picker(name[0].toUpperCase() + name.slice(1), `slice:${name}`, plainly(values), given.get(`slice:${name}`)))));
    more.open = [...more.querySelectorAll("select")].some((select) => select.value);
    form.append(make("label", {}, "Words or id", make("input", { name: "words", type: "search", autocomplete: "off", value: given.get("words") || "" })),
      picker("Outcome", "outcome", [...plainly(data.outcomes), ["disagree", "predictors disagree"]], given.get("outcome")), more);
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
    end.replaceChildren(...pager(data.page, data.pages, async (to) => {
      await turn(to);
      count.scrollIntoView();
    }));
  }

  form.addEventListener("input", () => turn(0).catch((error) => say(error.message)));
  form.addEventListener("submit", (event) => event.preventDefault());
  await turn(given.get("page") || 0, true);
  const opened = given.get("open");
  if (opened) list.querySelector("details").open = true;
}
