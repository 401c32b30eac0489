"use strict";
// Two runs side by side, or two systems of them: the facts, the verdicts, and the settings that differ.

import { TONES, get, link, minute, runPicker } from "/page/view.js";

const facts = [
  ["name", (run) => run.name || "–"], ["experiment", (run) => run.experiment], ["created", (run) => minute(run.created)],
  ["questions", (run) => `${run.questions}${run.split && `, split ${run.split}`} (${run.digest.slice(0, 8)})`],
  ["corpus", (run) => run.corpus], ["measure", (run) => run.measure], ["folder", (run) => run.folder],
];

// The choice of a system on either side. Without one, systems of the same name are compared.
function systemPicker(form, now, before, given) {
  const common = now.key !== before.key && now.systems.some((name) => before.systems.includes(name));
  const system = given.get("system") ?? (common ? "" : now.systems[0]);
  const others = now.key === before.key ? before.systems.filter((name) => name !== system) : before.systems;
  const other = !system ? "" : given.get("other") || (others.includes(system) ? system : others[0] ?? system);
  const plain = (names) => names.map((name) => [name, name]);
  const all = common ? [["", "each with the same name"]] : [];
  const chosen = { ...(system ? { system, other } : {}) };
  form.append(picker("System of the run", "system", [...all, ...plain(now.systems)], system),
    ...(system ? [picker("Compared with the system", "other", plain(before.systems), other)] : []));
  for (const select of form.querySelectorAll("[name]")) {
    select.addEventListener("change", (event) => {
      event.stopPropagation();
      location.search = new URLSearchParams({ run: now.key, against: before.key, ...chosen, [select.name]: select.value });
    });
  }
  return chosen;
}

export async function show(view, given) {
  const { runs } = await get("/api/runs");
  const finished = runs.filter((run) => run.status === "finished").map((run) => run.key);
  if (!given.get("run") && finished.length) {
    given.set("run", finished[0]);
    given.set("against", finished[1] ?? finished[0]);
  }
  const [picks, chosen] = runPicker(runs, given, true);
  view.append(picks);
  const [now, before] = [chosen.run, chosen.against].map((key) => runs.find((run) => run.key === key));
  if (!now || !before) {
    view.append(make("p", {}, "Choose two runs."));
    return;
  }
  const query = { run: now.key, against: before.key, ...systemPicker(picks, now, before, given) };
  const both = table("The two runs", ["fact", "run", "compared with"], facts.map(([name, of]) => [name, of(now), of(before)]), 3);
  both.classList.add("facts");
  const results = make("div");
  view.append(results, both);
  const systems = [...new Set([...now.scores, ...before.scores].map((score) => score.system))];
  const text = (run, system) => run.scores.find((score) => score.system === system)?.text ?? "–";
  const scores = table("Scores", ["system", `run, ${now.measure}`, `compared with, ${before.measure}`],
    systems.map((system) => [system, text(now, system), text(before, system)]));
  const waiting = make("p", { class: "soft" }, "Comparing the runs question by question.");
  results.append(scores, waiting);
  const found = await get("/api/compare", query);
  waiting.remove();
  if (found.problem) {
    results.append(make("p", { class: "near" }, `There are no verdicts: ${found.problem.replace(/[^.]$/, "$&.")}`));
    return;
  }
  scores.remove();
  const shown = { run: now.key, against: before.key, ...(query.other ? { other: query.other } : {}) };
  const name = ({ system, baseline }) => (system === baseline ? system : `${system} vs ${baseline}`);
  const rows = found.systems.map((each) => [
    name(each), make("td", {}, make("span", { class: `word ${TONES[each.verdict] || "soft"}` }, each.words)),
    each.gap, ...each.values, ...each.p50_ms]);
  results.append(
    table(`${found.measure} of each system; a positive difference means that the run is better`,
      ["system", "verdict", "difference", "run", "compared with", "p50 ms", "p50 ms before"], rows, 2),
    make("ul", { class: "points" }, ...found.systems.map((each) => make("li", {}, `${name(each)}: ${each.sentence} `,
      link("/questions", { ...shown, change: "better", predictor: each.system }, `${each.won.length} better`), ", ",
      link("/questions", { ...shown, change: "worse", predictor: each.system }, `${each.lost.length} worse`)))),
    make("h2", {}, "Different systems and settings"),
    found.changes.length ? make("ul", {}, ...found.changes.map((text) => make("li", {}, text)))
      : make("p", { class: "soft" }, "The runs have the same systems and settings."));
}
