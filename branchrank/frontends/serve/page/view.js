"use strict";
// The parts that all views share: links, requests, the token, and the choice of the view.

export const TONES = {
  better: "good", worse: "bad", "equivalent within delta": "good", inconclusive: "near", "too few questions to tell": "soft",
};

export const link = (path, query, ...children) =>
  make("a", { href: `${path}?${new URLSearchParams(query)}` }, ...children);

export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
export const minute = (created) => created.slice(0, 16).replace("T", " ");

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

const ask = (...request) => fetch(...request).then(answered, () => {
  throw new Error("the server does not answer; start branchrank view again");
});

export const get = (path, query = {}) => ask(`${path}?${new URLSearchParams(query)}`);

export function post(path, body) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${localStorage.getItem(TOKEN) || ""}` };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

// The choice of one run, or of two. A change reloads the view with the runs in its URL.
export function runPicker(runs, given, two) {
  const finished = runs.filter((run) => run.status === "finished");
  const name = (run) => [run.name || run.experiment, run.created.slice(0, 19).replace("T", " "), counted(run.questions, "question"),
    ...(run.verdicts.length === 1 ? [`${run.verdicts[0].candidate}: ${run.verdicts[0].words}`] : [])].join(" · ");
  const run = given.get("run") ?? (finished[0] || { key: "" }).key;
  const form = make("form", { class: "picks", "aria-label": "Runs" });
  const picker = (label, chosen, none) => {
    const select = make("select", {}, ...(none ? [make("option", { value: "" }, none)] : []),
      ...finished.map((each) => make("option", { value: each.key }, name(each))));
    select.value = chosen;
    form.append(make("label", {}, label, select));
    return select;
  };
  const first = picker("Run", run, run ? "" : "no run");
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
}

start();
