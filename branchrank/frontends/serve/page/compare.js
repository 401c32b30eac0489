"use strict";
// Two runs side by side: their facts, the verdict on each system, and the settings that differ.

import { TONES, get, link, minute, runPicker } from "/page/view.js";

const facts = [
  ["name", (run) => run.name || "–"], ["experiment", (run) => run.experiment], ["created", (run) => minute(run.created)],
  ["questions", (run) => `${run.questions}${run.split && `, split ${run.split}`} (${run.digest.slice(0, 8)})`],
  ["corpus", (run) => run.corpus], ["measure", (run) => run.measure], ["folder", (run) => run.folder],
];

export async function show(view, given) {
  const { runs } = await get("/api/runs");
  const [picks, chosen] = runPicker(runs, given, true);
  view.append(picks);
  const [now, before] = [chosen.run, chosen.against].map((key) => runs.find((run) => run.key === key));
  if (!now || !before) {
    view.append(make("p", {}, "Choose two runs."));
    return;
  }
  const both = table("The two runs", ["fact", "run", "compared with"], facts.map(([name, of]) => [name, of(now), of(before)]), 3);
  both.classList.add("facts");
  view.append(both);
  const query = { run: now.key, against: before.key };
  const systems = [...new Set([...now.scores, ...before.scores].map((score) => score.system))];
  const text = (run, system) => run.scores.find((score) => score.system === system)?.text ?? "–";
  const scores = table("Scores", ["system", `run, ${now.measure}`, `compared with, ${before.measure}`],
    systems.map((system) => [system, text(now, system), text(before, system)]));
  const waiting = make("p", { class: "soft" }, "Comparing the runs question by question.");
  view.append(scores, waiting);
  const found = await get("/api/compare", query);
  waiting.remove();
  if (found.problem) {
    view.append(make("p", { class: "near" }, `There are no verdicts: ${found.problem.replace(/[^.]$/, "$&.")}`));
    return;
  }
  scores.remove();
  const rows = found.systems.map((each) => [
    each.system, make("td", {}, make("span", { class: `word ${TONES[each.verdict] || "soft"}` }, each.words)),
    each.gap, ...each.values, ...each.p50_ms]);
  view.append(
    table(`${found.measure} of each system; a positive difference means that the run is better`,
      ["system", "verdict", "difference", "run", "compared with", "p50 ms", "p50 ms before"], rows, 2),
    make("ul", { class: "points" }, ...found.systems.map((each) => make("li", {}, `${each.system}: ${each.sentence} `,
      link("/questions", { ...query, change: "better", predictor: each.system }, `${each.won.length} better`), ", ",
      link("/questions", { ...query, change: "worse", predictor: each.system }, `${each.lost.length} worse`)))),
    make("h2", {}, "Different systems and settings"),
    found.changes.length ? make("ul", {}, ...found.changes.map((text) => make("li", {}, text)))
      : make("p", { class: "soft" }, "The runs have the same systems and settings."));
}
