"use strict";
// The search: the hits of a predictor with the words of the query marked. In view, a hit becomes a new question.

import { counted, get, link, only, setToken } from "/page/view.js";

const marked = (parts) => parts.map((text, place) => (place % 2 ? make("em", { class: "match" }, text) : text));

function hit({ source, first, last, heading, section, lines }, number, query) {
  const name = `${source}:${first}-${last}`;
  const box = make("pre", { class: "passage", tabindex: "0", "aria-label": `Text of ${name}` },
    ...lines.map((parts, offset) => make("span", { "data-line": first + offset }, ...marked(parts.join("") ? parts : [" "]))));
  const [from, to] = section;
  const gold = { add: 1, text: query, source, first: from, last: to };
  return make("li", { class: "card" }, make("h2", {}, `${number + 1}. ${heading || source}`), make("p", { class: "soft" }, name), box,
    ...(only ? [] : [make("p", { class: "actions" }, link("/label", gold, `Add a question with this section (lines ${from}-${to})`))]));
}

// A server that needs a token gets it from the reader once.
function tokenForm() {
  const input = make("input", { type: "password", autocomplete: "off", required: "" });
  const form = make("form", { class: "picks" }, make("label", {}, "The token of this server", input), make("button", {}, "Use it"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value);
    location.reload();
  });
  return form;
}

export async function show(view, given) {
  const [query, asked] = ["query", "predictor"].map((name) => given.get(name) || "");
  let known;
  try {
    known = await get("/api/search");
  } catch (error) {
    if (error.code === "no_token") view.append(tokenForm());
    throw error;
  }
  const input = make("input", { name: "query", type: "search", autocomplete: "off", value: query, maxlength: "10000" });
  const predictors = picker("Predictor", "predictor", known.predictors.map((name) => [name, name]), asked || known.predictor);
  predictors.querySelector("select").append(...Object.entries(known.refused).map(([name, why]) =>
    make("option", { disabled: "", title: why }, `${name} (can't run)`)));
  const form = make("form", { class: "picks", role: "search", "aria-label": "Search the documents" },
    make("label", {}, "Words or a question", input),
    predictors, make("button", {}, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.search = new URLSearchParams(new FormData(form));
  });
  view.append(form);
  if (!query.trim()) return input.focus();
  const waiting = make("p", { class: "soft" }, "Searching.");
  view.append(waiting);
  try {
    const found = await get("/api/search", { query, predictor: asked });
    const count = found.hits.length ? `${counted(found.hits.length, "hit")} of ${found.predictor}` : "Nothing was found. Try other words, or another predictor.";
    view.append(make("p", { id: "count", role: "status" }, count), ...found.notices.map((text) => make("p", { class: "soft" }, text)),
      make("ol", { class: "found-list" }, ...found.hits.map((each, number) => hit(each, number, query))));
  } finally {
    waiting.remove();
  }
}
