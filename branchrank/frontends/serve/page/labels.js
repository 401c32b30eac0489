"use strict";
// Labels: the passages that the systems found, one question after another, and a new question. Lines are picked
// with the mouse or the arrow keys, and a label or a change to the question is written as soon as it is given.

import { counted, get, link, post, runPicker, say, sayLater } from "/page/view.js";

const KEYS = { y: "yes", p: "partly", n: "no", Enter: "yes" };
const EDGE = 10; // pixels at the top and bottom of a box in which the mouse scrolls it
const WORDS = { yes: "Yes, it answers", partly: "Partly", no: "No" };

// state.id is "" while the question is new. Its text is kept through a reload.
let state, run, cards, view, saving = false;
const DRAFT = "branchrank-draft";

const placeOf = ([source, first, last]) => (first === null ? source : `${source}:${first}-${last}`);
const place = ({ source, first, last }) => placeOf([source, first, last]);
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

  show(line) {
    this.active = line;
    this.draw();
    this.box.focus();
    this.box.querySelector(".active").scrollIntoView({ block: "center" });
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
    const bar = view.querySelector(".pager"); // it stays at the bottom of the window
    const follow = () => {
      const box = this.box.getBoundingClientRect();
      const top = Math.max(box.top, 0) + EDGE, bottom = Math.min(box.bottom, bar ? bar.getBoundingClientRect().top : innerHeight) - EDGE;
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

// What a label did to the gold.
function effect({ label, answer, overlaps }) {
  if (label !== "yes") return "";
  if (answer) return `, lines ${answer[0]}-${answer[1]} are gold`;
  if (!overlaps.length) return ", but its lines are not gold; press Yes again to make them gold";
  const gold = overlaps.map(([found, by]) => `${placeOf(found)} (change it ${by ? `on the card ${placeOf(by)}` : `in ${state.file}`})`);
  return `, but no lines became gold, because they overlap the gold ${gold.join(", ")}`;
}

// Lines that are not all in the passage are a passage of their own, for every label.
const outside = (passage, picked) => picked && (passage.free || picked[0] < passage.first || picked[1] > passage.last);

async function give(passage, lines, label) {
  if (saving) return; // a second press of the key is not another label
  if (passage.free && !lines.picked) {
    say("Pick the lines first.");
    return;
  }
  const text = state.id ? "" : view.querySelector("[name=text]").value.trim();
  if (!state.id && !text) {
    say("Write the question first.");
    view.querySelector("[name=text]").focus();
    return;
  }
  const { source, document } = passage;
  const [first, last] = passage.free ? lines.picked : [passage.first, passage.last];
  const picked = label === "yes" || outside(passage, lines.picked) ? lines.picked : null;
  const body = { run: state.run, question: state.id, text, source, first, last, label, version: state.version, document, ...(picked ? { answer: picked } : {}) };
  saving = true;
  try {
    const now = await post("/api/labels", body);
    const saved = outside(passage, picked) ? placeOf([source, ...picked]) : place(passage);
    const found = now.passages.find((each) => place(each) === saved);
    const lost = found?.label === "yes" && !found.answer;
    say(`Saved: ${label} for ${picked ? placeOf([source, ...picked]) : saved + (lines.picked ? ", the whole passage" : "")}${lost ? effect(found) : ""}.`, !lost);
    update(now, passage, lines);
  } catch (error) {
    say(error.code === "changed" ? `Not saved: ${error.message}. Reload the page.` : `Not saved: ${error.message}`);
  } finally {
    saving = false;
  }
}

// Takes over the new state without making the page again, and moves on to the next passage without a label.
// A question that has been added has a page of its own.
function update(now, passage, lines) {
  lines.clear();
  if (!state.id) {
    sessionStorage.removeItem(DRAFT);
    sayLater(`Saved: the question ${now.id} is in ${now.file}.`);
    return goTo(now.id);
  }
  state = now;
  for (const card of cards) {
    const found = now.passages.find((each) => place(each) === place(card.passage));
    if (found) {
      Object.assign(card.passage, { label: found.label, answer: found.answer, overlaps: found.overlaps });
      card.mark();
    } else if (!card.passage.free) card.lines.box.closest(".card").remove(); // it overlaps gold now
  }
  cards = cards.filter(({ lines: { box } }) => box.isConnected);
  const other = now.passages.filter((each) => !cards.some((card) => place(card.passage) === place(each)));
  for (const each of other) view.querySelector(".cards").append(cardOf(each));
  status();
  const following = cards.slice(cards.findIndex((card) => card.passage === passage) + 1).concat(cards).find((card) => !card.passage.label && !card.passage.free);
  (following ? following.lines.box : view.querySelector(".onward")).focus();
}

function cardOf(passage) {
  const chosen = make("p", { class: "soft picked" });
  const buttons = Object.entries(state.id ? WORDS : { yes: "Save the question with these lines" }).map(([label, words]) =>
    make("button", { type: "button", "aria-pressed": "false", "data-label": label }, words));
  const lines = new Lines(passage, ({ picked }) => {
    const only = outside(passage, picked) ? "" : " Only Yes uses them; Partly and No are for the whole passage.";
    const none = passage.free ? "No lines picked." : "No lines picked: a label is for the whole passage.";
    chosen.textContent = picked ? `Picked: lines ${picked[0]}-${picked[1]}.${only}` : none;
  });
  const clear = make("button", { type: "button" }, "Clear the pick");
  const whole = make("button", { type: "button" }, "Whole document");
  const card = { passage, lines, mark() {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.label === passage.label));
    if (!passage.label) return lines.draw();
    lines.clear();
    chosen.textContent = `Labeled: ${passage.label}${effect(passage)}.`;
  } };
  for (const button of buttons) button.addEventListener("click", () => give(passage, lines, button.dataset.label));
  lines.box.addEventListener("label", ({ detail }) => give(passage, lines, detail));
  clear.addEventListener("click", () => lines.clear());
  whole.addEventListener("click", async () => {
    const found = await get("/api/document", { source: passage.source });
    lines.fill(1, found.lines);
    lines.show(lines.active);
    whole.remove();
  });
  cards.push(card);
  card.mark();
  return make("section", { class: "card", "aria-label": place(passage) },
    make("h3", {}, place(passage), make("span", { class: "soft" }, passage.heading ? `  ${passage.heading}` : "")),
    lines.box, chosen, make("p", { class: "actions" }, ...buttons, clear, whole));
}

function status() {
  const number = state.id ? `Question ${state.number} of ${state.total}` : `A new question beside the ${state.total}`;
  view.querySelector(".progress").textContent =
    `${number} in ${state.file}: ${state.with_gold} with gold, ${state.labeled} with labels by ${state.annotator}.`;
  if (!state.id) return;
  const onward = view.querySelector(".onward");
  const back = `Back to the first of ${counted(state.earlier, "earlier question")} with unlabeled passages`;
  const done = "No other question has unlabeled passages";
  onward.textContent = state.earlier ? back : state.waiting ? "Next question to label" : done;
  onward.disabled = !state.waiting;
  const none = state.answerable ? "No gold yet." : "No passage is gold: the documents do not answer this question.";
  view.querySelector(".golds").replaceChildren(make("h3", {}, state.gold.length ? "Gold, the text that answers" : none),
    ...state.gold.flatMap((each, number) => [make("p", {}, placeOf(each)),
      ...(each[1] !== null && number < state.gold_lines.length ? [passage({ [each[0]]: [state.gold_lines[number]] }, each, state.gold)] : [])]));
}

// Changes to the question itself. The page is made again, since a run may have asked the question as it was.
function editing() {
  const by = Object.entries(state.labels).map(([name, count]) => `${count} by ${name}`).join(", ");
  const input = make("input", { name: "edited", autocomplete: "off", value: state.question });
  const form = make("form", { class: "picks" }, make("label", {}, "The question", input), make("button", {}, "Save the text"));
  const lost = by ? `, with its labels (${by})` : "";
  const write = async (change, done, to) => {
    try {
      await post("/api/edits", { question: state.id, version: state.version, change, text: input.value });
      sayLater(`Saved: ${done}.`);
      goTo(to);
    } catch (error) {
      say(`Not saved: ${error.message}${error.code === "changed" ? ". Reload the page." : ""}`);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    write("text", `the new text of ${state.id}`, state.id);
  });
  const none = make("button", { type: "button" }, "The documents do not answer it");
  none.addEventListener("click", () => write("unanswerable", `${state.id} has no gold and counts as unanswerable`, state.id));
  const remove = make("button", { type: "button", class: "danger" }, "Delete the question");
  remove.addEventListener("click", () => {
    if (remove.dataset.sure) return write("delete", `${state.id} is deleted${lost}`, state.next || state.previous);
    remove.dataset.sure = "1";
    remove.textContent = `Press again to delete the question${lost}`;
  });
  return make("details", { class: "edit" }, make("summary", {}, "Edit or delete this question"), form,
    make("p", { class: "actions" }, ...(state.answerable ? [none] : []), remove));
}

async function addDocument(source, line) {
  if (!cards.some(({ passage }) => passage.free && passage.source === source)) {
    const found = await get("/api/document", { source });
    const passage = { source, first: 1, last: found.lines.length, heading: "pick the lines that answer", document: found.digest, start: 1, lines: found.lines, label: "", answer: null, free: true };
    view.querySelector(".cards").append(cardOf(passage));
  }
  cards.find(({ passage }) => passage.free && passage.source === source).lines.show(line);
}

function documentPicker(sources) {
  const form = make("form", { class: "picks", "aria-label": "Document" });
  const input = make("input", { list: "sources", name: "source", autocomplete: "off" });
  const list = make("ul", { class: "places", "aria-label": "Documents found" });
  form.append(make("label", {}, "Open a document, by its name or words of a heading", input), make("button", {}, "Open"),
    make("datalist", { id: "sources" }, ...sources.map((source) => make("option", { value: source }))));
  const open = (place) => addDocument(...place).catch((error) => say(error.message));
  const find = async () => {
    const places = await get("/api/places", { words: input.value });
    say(places.length ? "" : "No document has a name or a heading like this.");
    list.replaceChildren();
    if (places.length === 1 && places[0][0] === input.value) await open(places[0]);
    else list.append(...places.map((place) => {
      const button = make("button", { type: "button" }, place[2] ? `${place[0]}:${place[1]} ${place[2]}` : place[0]);
      button.addEventListener("click", () => open(place));
      return make("li", {}, button);
    }));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    find().catch((error) => say(error.message));
  });
  return make("div", {}, form, list);
}

function draftForm() {
  const input = make("input", { name: "text", autocomplete: "off", value: sessionStorage.getItem(DRAFT) || "" });
  const form = make("form", { class: "picks", "aria-label": "Question" }, make("label", {}, "The question, as your readers ask it", input));
  input.addEventListener("input", () => {
    sessionStorage.setItem(DRAFT, input.value);
    say("");
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const picked = cards.filter(({ lines }) => lines.picked);
    if (picked.length === 1) give(picked[0].passage, picked[0].lines, "yes");
    else say("Open the document with the answer, pick the lines, and press Enter there.");
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
  const none = passages.length ? "" : "All passages that the systems found are gold already.";
  const note = make("p", { class: "note" }, state.note ? `No passages from a run: ${state.note}` : none);
  const keys = "lines with the mouse or the arrow keys (with Shift for more lines)";
  const shown = make("div", { class: "cards" }, ...passages);
  view.append(
    make("p", { class: "soft progress", "aria-live": "polite" }),
    make("h2", {}, state.question || "Add a question"),
    ...(state.id ? [
      editing(), make("section", { class: "golds", "aria-label": "Gold" }),
      make("p", { class: "soft" }, `Pick ${keys}. Enter or y: yes; p: partly; n: no; Escape: clear. ` +
        "Partly is for a passage that has a part of the answer or leads to it; it adds no gold."),
      note, shown, documentPicker(sources),
      make("p", { class: "pager" }, button("Previous", () => state.previous, ""), button("Next", () => state.next, ""), onward,
        state.note ? "" : link("/questions", { run, words: state.id, open: 1 }, "The systems' answers")),
    ] : [
      draftForm(),
      make("p", { class: "soft" }, `Open the document with the answer, and pick the ${keys}. Enter saves the question with these lines as its gold.`),
      documentPicker(sources), shown,
    ]));
  status();
}

export async function show(main, given) {
  view = main;
  const { runs } = await get("/api/runs");
  const { sources, newest } = await get("/api/documents");
  if (!given.get("run")) given.set("run", newest);
  const [picks, chosen] = runPicker(runs, given, false);
  run = chosen.run;
  view.append(picks);
  state = await get("/api/label", { run, question: given.get("question") || "" });
  if (given.get("add")) Object.assign(state, { id: "", question: "", passages: [] });
  if (state.id) history.replaceState(null, "", `?${new URLSearchParams({ run, question: state.id })}`);
  question(sources);
  if (given.get("source")) {
    sessionStorage.setItem(DRAFT, view.querySelector("[name=text]").value = given.get("text") || "");
    const [from, to] = ["first", "last"].map((name) => Number(given.get(name)));
    await addDocument(given.get("source"), from);
    cards.at(-1).lines.pick(from);
    cards.at(-1).lines.pick(to, true);
  }
  const first = cards.find((card) => !card.passage.label);
  (state.id ? first?.lines.box ?? document.querySelector("header .button") : view.querySelector("[name=text]")).focus({ preventScroll: true });
}
