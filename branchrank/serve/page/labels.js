"use strict";
// Labels: the passages that the systems found, one question after another. Lines are picked with the mouse or
// the arrow keys, and a label is written as soon as it is given.

import { get, link, post, runPicker, say } from "/page/view.js";

const KEYS = { y: "yes", p: "partly", n: "no", Enter: "yes" };
const EDGE = 10; // pixels at the top and bottom of a box in which the mouse scrolls it
const WORDS = { yes: "Yes, it answers", partly: "Partly", no: "No" };

let state, run, cards, view, saving = false;

const place = (passage) => `${passage.source}:${passage.first}-${passage.last}`;
const stored = (passage) => `branchrank-picked ${run} ${state.id} ${place(passage)}`;

// The lines of one passage as a list box. picked is [first, last], or null for the whole passage.
class Lines {
  constructor(passage, changed) {
    this.passage = passage;
    this.changed = changed;
    this.picked = JSON.parse(sessionStorage.getItem(stored(passage)) || "null");
    this.box = make("div", { class: "passage lines", role: "listbox", "aria-multiselectable": "true", tabindex: "0", "aria-label": `Lines of ${place(passage)}` });
    this.fill(passage.start, passage.lines);
    this.box.addEventListener("pointerdown", (event) => this.begin(event));
    this.box.addEventListener("click", (event) => this.tap(event));
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  fill(start, lines) {
    this.start = start;
    this.count = lines.length;
    const name = this.box.getAttribute("aria-label");
    this.box.replaceChildren(...lines.map((text, offset) => {
      const line = start + offset;
      const around = line < this.passage.first || line > this.passage.last;
      return make("span", { class: around ? "around" : "own", role: "option", id: `${name} ${line}`.replaceAll(/\s/g, "_"), "data-line": line, "aria-label": `line ${line}: ${text}` }, text || " ");
    }));
    this.active = this.picked ? this.picked[1] : this.passage.first;
    this.anchor = this.picked ? this.picked[0] : this.active;
    this.draw();
  }

  draw() {
    const [first, last] = this.picked || [0, -1];
    const gold = (line) => state.gold.some(([source, a, b]) => source === this.passage.source && a !== null && a <= line && line <= b);
    for (const option of this.box.children) {
      const line = Number(option.dataset.line);
      option.setAttribute("aria-selected", String(first <= line && line <= last));
      option.classList.toggle("active", line === this.active);
      option.classList.toggle("gold", gold(line));
      if (line === this.active) this.box.setAttribute("aria-activedescendant", option.id);
    }
    this.changed(this);
  }

  pick(line, extend) {
    if (!extend) this.anchor = line;
    this.active = line;
    this.picked = [Math.min(this.anchor, line), Math.max(this.anchor, line)];
    sessionStorage.setItem(stored(this.passage), JSON.stringify(this.picked));
    this.draw();
  }

  clear() {
    this.picked = null;
    sessionStorage.removeItem(stored(this.passage));
    this.draw();
  }

  lineAt(element) {
    const option = this.box.contains(element) && element.closest("[data-line]");
    return option && Number(option.dataset.line);
  }

  // Until the button is released, the pick follows the mouse, which scrolls the lines at their edges.
  begin(event) {
    const line = this.lineAt(event.target);
    if (!line || event.button || event.pointerType === "touch") return;
    event.preventDefault();
    this.box.focus({ preventScroll: true });
    this.pick(line, event.shiftKey);
    let y = event.clientY;
    const follow = () => {
      const box = this.box.getBoundingClientRect();
      const top = Math.max(box.top, 0) + EDGE, bottom = Math.min(box.bottom, innerHeight) - EDGE;
      const inside = Math.min(Math.max(y, top), bottom);
      this.box.scrollTop += y - inside;
      const under = this.lineAt(document.elementFromPoint(box.left + EDGE, inside));
      if (under && under !== this.active) this.pick(under, true);
    };
    const timer = setInterval(follow, 50);
    const move = (moved) => {
      y = moved.clientY;
      follow();
    };
    const end = () => {
      clearInterval(timer);
      removeEventListener("pointermove", move);
    };
    addEventListener("pointermove", move);
    for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, end, { once: true });
  }

  // A finger that scrolls picks no line. The second of two taps extends the pick.
  tap(event) {
    const line = this.lineAt(event.target);
    if (line && event.pointerType === "touch") this.pick(line, Boolean(this.picked) && this.picked[0] === this.picked[1]);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const line = Math.min(Math.max(this.active + (this.picked ? step : 0), this.start), this.start + this.count - 1);
      this.pick(line, event.shiftKey);
      this.box.querySelector(".active").scrollIntoView({ block: "nearest" });
    } else if (event.key === "Escape") this.clear();
    else if (KEYS[event.key]) this.box.dispatchEvent(new CustomEvent("label", { detail: KEYS[event.key] }));
    else return;
    event.preventDefault();
  }
}

// Lines that are not all in the passage are a passage of their own, for every label.
const outside = (passage, picked) => picked && (passage.free || picked[0] < passage.first || picked[1] > passage.last);

async function give(passage, lines, label) {
  if (saving) return; // a second press of the key is not another label
  if (passage.free && !lines.picked) {
    say("Pick the lines first.");
    return;
  }
  const { source, document } = passage;
  const [first, last] = passage.free ? lines.picked : [passage.first, passage.last];
  const picked = label === "yes" || outside(passage, lines.picked) ? lines.picked : null;
  const body = { run, question: state.id, source, first, last, label, version: state.version, document, ...(picked ? { answer: picked } : {}) };
  saving = true;
  try {
    const now = await post("/api/labels", body);
    say(`Saved: ${label} for ${picked ? `${source}:${picked[0]}-${picked[1]}` : place(passage) + (lines.picked ? ", the whole passage" : "")}.`, true);
    update(now, passage, lines);
  } catch (error) {
    say(error.code === "changed" ? `Not saved: ${error.message}. Reload the page.` : `Not saved: ${error.message}`);
  } finally {
    saving = false;
  }
}

// Takes over the new state without making the page again, and moves on to the next passage without a label.
function update(now, passage, lines) {
  state = now;
  lines.clear();
  for (const card of cards) {
    const found = now.passages.find((each) => place(each) === place(card.passage));
    if (!found) continue;
    Object.assign(card.passage, { label: found.label, answer: found.answer });
    card.mark();
  }
  const other = now.passages.filter((each) => !cards.some((card) => place(card.passage) === place(each)));
  for (const each of other) view.querySelector(".cards").append(cardOf(each));
  status();
  const following = cards.slice(cards.findIndex((card) => card.passage === passage) + 1).concat(cards).find((card) => !card.passage.label && !card.passage.free);
  (following ? following.lines.box : view.querySelector(".onward")).focus();
}

function cardOf(passage) {
  const chosen = make("p", { class: "soft picked" });
  const buttons = Object.keys(WORDS).map((label) => make("button", { type: "button", "aria-pressed": "false", "data-label": label }, WORDS[label]));
  const lines = new Lines(passage, ({ picked }) => {
    const only = outside(passage, picked) ? "" : " Only Yes uses them; Partly and No are for the whole passage.";
    chosen.textContent = picked ? `Picked: lines ${picked[0]}-${picked[1]}.${only}` : "No lines picked: a label is for the whole passage.";
  });
  const clear = make("button", { type: "button" }, "Clear the pick");
  const whole = make("button", { type: "button" }, "Whole document");
  const card = { passage, lines, mark() {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.label === passage.label));
    if (!passage.label) return lines.draw();
    const answer = passage.answer ? `, lines ${passage.answer[0]}-${passage.answer[1]} are gold` : "";
    lines.clear();
    chosen.textContent = `Labeled: ${passage.label}${answer}.`;
  } };
  for (const button of buttons) button.addEventListener("click", () => give(passage, lines, button.dataset.label));
  lines.box.addEventListener("label", ({ detail }) => give(passage, lines, detail));
  clear.addEventListener("click", () => lines.clear());
  whole.addEventListener("click", async () => {
    const found = await get("/api/document", { source: passage.source });
    lines.fill(1, found.lines);
    lines.box.querySelector(".active").scrollIntoView({ block: "center" });
    whole.remove();
  });
  cards.push(card);
  card.mark();
  return make("section", { class: "card", "aria-label": place(passage) },
    make("h3", {}, place(passage), make("span", { class: "soft" }, passage.heading ? `  ${passage.heading}` : "")),
    lines.box, chosen, make("p", { class: "actions" }, ...buttons, clear, whole));
}

function status() {
  view.querySelector(".progress").textContent =
    `Question ${state.number} of ${state.total}; ${state.labeled} have labels by ${state.annotator} in ${state.file}.`;
  const onward = view.querySelector(".onward");
  const back = `Back to the first of ${state.earlier} earlier question${state.earlier === 1 ? "" : "s"} with unlabeled passages`;
  const done = state.passages.every((each) => each.label) ? "All passages of this run are labeled" : "All other questions are labeled";
  onward.textContent = state.earlier ? back : state.waiting ? "Next question to label" : done;
  onward.disabled = !state.waiting;
  const gold = state.gold.map(([source, first, last]) => (first === null ? source : `${source}:${first}-${last}`));
  view.querySelector(".goldlist").textContent = gold.length ? `Gold: ${gold.join(", ")}` : "No gold yet.";
}

async function addDocument(source) {
  const found = await get("/api/document", { source });
  const passage = { source, first: 1, last: found.lines.length, heading: "another document: pick the lines that answer", document: found.digest, start: 1, lines: found.lines, label: "", answer: null, free: true };
  view.querySelector(".cards").append(cardOf(passage));
  cards.at(-1).lines.box.focus();
}

function documentPicker(sources) {
  const form = make("form", { class: "picks", "aria-label": "Another document" });
  const input = make("input", { list: "sources", name: "source", autocomplete: "off" });
  form.append(make("label", {}, "Another document", input), make("button", {}, "Open"),
    make("datalist", { id: "sources" }, ...sources.map((source) => make("option", { value: source }))));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    addDocument(input.value).catch((error) => say(error.message));
  });
  return form;
}

function goTo(question) {
  location.search = new URLSearchParams({ run, question });
}

function question(sources) {
  cards = [];
  const button = (text, to, name) => {
    const made = make("button", { type: "button", class: name }, text);
    made.disabled = !to();
    made.addEventListener("click", () => goTo(to()));
    return made;
  };
  const onward = button("", () => state.waiting, "onward");
  const passages = state.passages.map(cardOf);
  view.append(
    make("p", { class: "soft progress", "aria-live": "polite" }),
    make("h2", {}, state.question),
    make("p", { class: "soft goldlist" }),
    make("p", { class: "soft" }, "Pick lines with the mouse or the arrow keys (with Shift for more lines). Enter or y: yes; p: partly; n: no; Escape: clear."),
    make("div", { class: "cards" }, ...(passages.length ? passages : [make("p", {}, "All passages that the systems found are gold already.")])),
    documentPicker(sources),
    make("p", { class: "pager" }, button("Previous", () => state.previous, ""), button("Next", () => state.next, ""), onward,
      link("/questions", { run, words: state.id, open: 1 }, "The systems' answers")));
  status();
}

export async function show(main, given) {
  view = main;
  const { runs } = await get("/api/runs");
  const { sources, newest } = await get("/api/documents");
  if (newest && !given.get("run")) given.set("run", newest);
  const [picks, chosen] = runPicker(runs, given, false);
  view.append(picks);
  run = chosen.run;
  if (!run) return;
  state = await get("/api/label", { run, question: given.get("question") || "" });
  history.replaceState(null, "", `?${new URLSearchParams({ run, question: state.id })}`);
  question(sources);
  const first = cards.find((card) => !card.passage.label);
  if (first) first.lines.box.focus({ preventScroll: true });
}
