"use strict";
// The parts that all views share: elements, requests, the token, and the choice of the view.

export const TONES = {
  better: "good", worse: "bad", "equivalent within delta": "good", inconclusive: "near", "too few questions to tell": "soft",
};

// Text is added as text nodes, so that the text of runs and documents is never parsed as markup.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const link = (path, query, ...children) =>
  make("a", { href: `${path}?${new URLSearchParams(query)}` }, ...children);

export function table(caption, headings, rows, labels = 1) {
  const scroll = { class: "table", role: "region", "aria-label": caption, tabindex: "0" };
  const figure = (place) => (place < labels ? {} : { class: "figure" });
  const cells = (row) => row.map((cell, place) =>
    cell instanceof Element && cell.matches("td") ? cell
      : place === 0 ? make("th", { scope: "row" }, cell) : make("td", figure(place), cell));
  return make("div", scroll, make("table", {},
    make("caption", {}, make("span", {}, caption)),
    make("thead", {}, make("tr", {}, ...headings.map((text, place) => make("th", { scope: "col", ...figure(place) }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row))))));
}

// A message stays until the next message, or for some seconds if it needs no action.
const said = document.getElementById("said");
let leaving;
export function say(text, brief = false) {
  clearTimeout(leaving);
  said.textContent = text;
  if (brief) leaving = setTimeout(() => said.replaceChildren(), 8000);
}

// The token is after the # of the URL that the command opens. It is kept for reloads and new tabs.
const TOKEN = "branchrank-token";
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  localStorage.setItem(TOKEN, found);
  history.replaceState(null, "", location.pathname + location.search);
}

async function answered(response) {
  const content = await response.json();
  if (response.ok) return content;
  const error = new Error(content.error.message);
  error.code = content.error.code;
  throw error;
}

export const get = async (path, query = {}) => answered(await fetch(`${path}?${new URLSearchParams(query)}`));

export async function post(path, body) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${localStorage.getItem(TOKEN) || ""}` };
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

// The choice of one run, or of two. A change reloads the view with the runs in its URL.
export function runPicker(runs, given, two) {
  const finished = runs.filter((run) => run.status === "finished");
  const name = (run) => (run.key.includes(run.experiment) ? run.key : `${run.key}: ${run.experiment}`);
  const run = given.get("run") || (finished[0] || { key: "" }).key;
  const form = make("form", { class: "picks", "aria-label": "Runs" });
  const picker = (label, chosen, none) => {
    const select = make("select", {}, ...(none ? [make("option", { value: "" }, none)] : []),
      ...finished.map((each) => make("option", { value: each.key }, name(each))));
    select.value = chosen;
    form.append(make("label", {}, label, select));
    return select;
  };
  const first = picker("Run", run);
  const second = two && picker("Compared with", given.get("against") || "", "no other run");
  form.addEventListener("change", () => {
    const query = { run: first.value, ...(second && second.value ? { against: second.value } : {}) };
    location.search = new URLSearchParams(query);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  return [form, { run, against: given.get("against") || "" }];
}

const VIEWS = { "/": "runs", "/questions": "questions", "/compare": "compare", "/label": "labels" };
const TITLES = { "/": "Runs", "/questions": "Questions", "/compare": "Side by side", "/label": "Label" };

async function start() {
  takeToken();
  const view = document.getElementById("view");
  document.getElementById("title").textContent = TITLES[location.pathname];
  document.title = `${TITLES[location.pathname]} · BranchRank`;
  for (const each of document.querySelectorAll("nav a")) {
    if (each.dataset.view === location.pathname) each.setAttribute("aria-current", "page");
  }
  try {
    const { show } = await import(`/page/${VIEWS[location.pathname]}.js`);
    await show(view, new URLSearchParams(location.search));
  } catch (error) {
    say(error.message);
  }
  view.setAttribute("aria-busy", "false");
  performance.mark("shown"); // benchmarks/local_page.py
}

start();
