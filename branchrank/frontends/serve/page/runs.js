"use strict";
// All runs with their scores and verdicts, and the trend of each experiment.

import { TONES, counted, get, link, minute } from "/page/view.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 400, HEIGHT = 56, EDGE = 10;

function drawn(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// One system's scores: a point and its interval for each run, joined within a stretch of the same questions.
function trendLine(system, points, order, [low, high]) {
  const span = Math.max(order.length - 1, 1);
  const x = (point) => EDGE + ((WIDTH - 2 * EDGE) * order.indexOf(point.key)) / span;
  const y = (value) => HEIGHT - 6 - ((HEIGHT - 12) * (value - low)) / (high - low || 1);
  const known = points.filter(({ score }) => score.value !== null);
  const marks = known.map((point) => {
    const { score } = point;
    const label = `${system}, ${minute(point.created)}: ${score.text}`;
    const parts = score.low === null ? []
      : [drawn("line", { class: "band", x1: x(point), x2: x(point), y1: y(score.low), y2: y(score.high) })];
    return drawn("g", { role: "img", "aria-label": label }, drawn("title", {}, label), ...parts,
      drawn("circle", { cx: x(point), cy: y(score.value), r: 4 }));
  });
  const lines = [];
  known.forEach((point, place) => {
    const before = known[place - 1];
    if (!before) return;
    const middle = (x(before) + x(point)) / 2;
    lines.push(before.stretch === point.stretch
      ? drawn("line", { class: "line", x1: x(before), y1: y(before.score.value), x2: x(point), y2: y(point.score.value) })
      : drawn("line", { class: "break", x1: middle, x2: middle, y1: 0, y2: HEIGHT }));
  });
  return drawn("svg", { class: "trend", viewBox: `0 0 ${WIDTH} ${HEIGHT}` }, ...lines, ...marks);
}

function trend(found) {
  const everything = Object.values(found.systems).flat();
  const created = new Map(everything.map((point) => [point.key, point.created]));
  const order = [...created.keys()].sort((a, b) => (created.get(a) < created.get(b) ? -1 : 1));
  const values = everything.flatMap(({ score }) => [score.low, score.value, score.high]).filter((value) => value !== null);
  const limits = [Math.min(...values), Math.max(...values)];
  const rows = Object.entries(found.systems).map(([system, points]) => [
    system,
    make("td", { class: "drawn" }, trendLine(system, points, order, limits)),
    points.at(-1).score.text,
  ]);
  const breaks = new Set(everything.map((point) => point.stretch)).size - 1;
  const note = breaks ? ", broken where the questions or the measure changed" : "";
  const numbers = order.map((key) => [minute(created.get(key)), ...Object.values(found.systems).map((points) =>
    points.find((point) => point.key === key)?.score.text ?? "–")]);
  return make("section", { class: "trends" }, make("h3", {}, found.experiment),
    table(`${found.measure} with its interval over ${found.runs} runs${note}`, ["system", "oldest to newest", "newest run"], rows, 2),
    make("details", {}, make("summary", {}, "The numbers"),
      table(`${found.measure} of each run of ${found.experiment}`, ["run", ...Object.keys(found.systems)], numbers)));
}

const word = (each) => make("span", { class: `word ${TONES[each.verdict] || "soft"}` }, each.words);

// One row per system with its verdict. With several baselines, the verdicts are a list below the table.
function results(run) {
  const of = new Map(run.verdicts.map((each) => [each.candidate, each]));
  const baselines = new Set(run.verdicts.map((each) => each.baseline));
  const single = baselines.size === 1;
  const rows = run.scores.map((score) => {
    const found = single && of.get(score.system);
    const verdict = found ? [make("td", {}, word(found)), found.gap] : [make("td", {}, baselines.has(score.system) ? "baseline" : ""), ""];
    return [score.system, ...(single ? verdict : []), score.text];
  });
  const headings = single ? ["system", "verdict", "difference", run.measure] : ["system", run.measure];
  const parts = [table(`${run.measure} in ${run.key}`, headings, rows, single ? 2 : 1)];
  if (!single) {
    parts.push(make("ul", {}, ...run.verdicts.map((each) =>
      make("li", {}, `${each.candidate} vs ${each.baseline}: `, word(each), `, ${each.gap}`))));
  }
  return parts;
}

function entry(run, latest) {
  const name = run.name || run.experiment || run.key;
  if (run.problem) {
    return make("article", { class: "run" }, make("h3", {}, run.key), make("p", { class: "bad" }, `Can't be read: ${run.problem}`));
  }
  const facts = [run.name && run.experiment, minute(run.created), run.status, counted(run.questions, "question"), run.split && `split ${run.split}`, run.folder];
  const other = latest.get(`${run.experiment} ${run.digest}`);
  const actions = make("p", { class: "actions" },
    link("/questions", { run: run.key }, "Questions"),
    link("/label", { run: run.key }, "Label"),
    ...(run.report ? [link(`/report/${run.report}`, { run: run.key }, "Report")] : []));
  if (other && other !== run.key) actions.append(link("/compare", { run: other, against: run.key }, "Compare with the newest run"));
  return make("article", { class: "run" }, make("h3", {}, name),
    make("p", { class: "soft" }, facts.filter(Boolean).join(" · ")),
    ...(run.scores.length ? results(run) : [make("p", { class: "soft" }, "This run has no tables yet.")]),
    run.status === "finished" ? actions : "");
}

export async function show(view) {
  const { runs, trends, steps } = await get("/api/runs");
  const latest = new Map();
  for (const run of runs) {
    const experiment = `${run.experiment} ${run.digest}`;
    if (run.status === "finished" && !latest.has(experiment)) latest.set(experiment, run.key);
  }
  if (trends.length) view.append(make("h2", {}, "Trends"), ...trends.map(trend));
  view.append(make("h2", {}, runs.length ? counted(runs.length, "run") : "No runs yet"));
  if (!runs.length) {
    view.append(make("p", {}, "Three steps lead to the first run. Reload the page after each."),
      make("ol", { class: "steps" }, ...steps.map(([title, commands, done]) => make("li", done ? { class: "done" } : {},
        make("h3", {}, title, make("span", { class: "good" }, done ? " ✓ done" : "")),
        make("pre", { class: "code", tabindex: "0", "aria-label": `Commands: ${title}` }, commands)))),
      make("p", { class: "soft" }, "To see the page with runs first, start branchrank demo and then branchrank view."));
  }
  view.append(...runs.map((run) => entry(run, latest)));
}
