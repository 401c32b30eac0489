"use strict";
// The parts that all views share: links, requests, the token, and the choice of the view.

export const TONES = {
  better: "good", worse: "bad", "equivalent within delta": "good", inconclusive: "near", "too few questions to tell": "soft",
};

export const link = (path, query, ...children) =>
  make("a", { href: `${path}?${new URLSearchParams(query)}` }, ...children);

export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
export const minute = (created) => created.slice(0, 16).replace("T", " ");

// The page of serve has one view only.
export const { only } = document.body.dataset;

// A message stays until the next message, or for some seconds if it needs no action.
const said = document.getElementById("said");
let leaving;
const LATER = "branchrank-said";
export const sayLater = (text) => sessionStorage.setItem(LATER, text); // on the next page
export function say(text, brief = false) {
  clearTimeout(leaving);
  said.textContent = text;
  if (brief) leaving = setTimeout(() => said.replaceChildren(), 8000);
}

// The token is after the # of the URL that the command opens. It is kept for reloads and new tabs.
const TOKEN = "branchrank-token";
export const setToken = (token) => localStorage.setItem(TOKEN, token);
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return;
  setToken(found);
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
  throw new Error(`the server does not answer; start branchrank ${only ? "serve" : "view"} again`);
});

// Other websites can't send the header x-branchrank.
const headers = () => ({ "x-branchrank": "page", authorization: `Bearer ${localStorage.getItem(TOKEN) || ""}` });

export const get = (path, query = {}) => ask(`${path}?${new URLSearchParams(query)}`, { headers: headers() });

export const post = (path, body) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json", ...headers() }, body: JSON.stringify(body) });

// The choice of one run, or of two. A change reloads the view with the runs in its URL.
export function runPicker(runs, given, two, file = "") {
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
  const first = picker("Run", run, file || (run ? "" : "no run"));
  const second = two && picker("Compared with", given.get("against") || "", "no other run");
  form.addEventListener("change", () => {
    const query = { run: first.value, ...(second && second.value ? { against: second.value } : {}) };
    location.search = new URLSearchParams(query);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  return [form, { run, against: given.get("against") || "" }];
}

const VIEWS = only ? { "/": [only, "Search"] } : {
  "/": ["runs", "Runs"], "/search": ["search", "Search"], "/questions": ["questions", "Questions"],
  "/compare": ["compare", "Side by side"], "/label": ["labels", "Label"],
};

async function start() {
  takeToken();
  const view = document.getElementById("view");
  const [module, title] = VIEWS[location.pathname];
  document.getElementById("title").textContent = title;
  document.title = `${title} · BranchRank`;
  document.querySelector("nav ul").append(...Object.entries(VIEWS).map(([path, [, name]]) => make("li", {},
    make("a", { href: path, ...(path === location.pathname ? { "aria-current": "page" } : {}) }, name))));
  if (only) for (const each of document.querySelectorAll("nav, header .button")) each.remove();
  say(sessionStorage.getItem(LATER) || "", true);
  sessionStorage.removeItem(LATER);
  try {
    const { show } = await import(`/page/${module}.js`);
    await show(view, new URLSearchParams(location.search));
  } catch (error) {
    say(error.message);
  }
  view.setAttribute("aria-busy", "false");
}

start();
