"use strict";
(() => {
  const data = (id) => JSON.parse(document.getElementById(`data-${id}`).textContent);
  const run = data("run");
  const questions = data("questions");
  let passages; // read when the first passage is shown
  const PAGE = 10, SHOWN_HITS = 5, AROUND = 2, LONGEST = 200;
  const HIT = 0, TOP5 = 1, SAME_PAGE = 2, UNANSWERABLE = 5;
  const ANY = "", DISAGREE = "disagree";
  const TONES = ["good", "near", "near", "bad", "bad", "soft"];
  const SIGNS = ["●", "◐", "◔", "○", "✕", "–"];

  // Text is added as text nodes, so that the text of documents is never parsed as markup.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function picker(label, name, choices) {
    const select = make("select", { name });
    for (const [value, text] of choices) select.append(make("option", { value }, text));
    return make("label", {}, label, select);
  }

  const form = document.getElementById("filters");
  const numbered = (texts) => texts.map((text, number) => [String(number), text]);
  const lost = [...new Set(questions.flatMap((question) => question[5].map((row) => row[3])))].filter(Boolean).sort();
  form.append(
    picker("Predictor", "predictor", [[ANY, "any"], ...numbered(run.predictors)]),
    picker("Outcome", "outcome", [[ANY, "any"], ...numbered(run.outcomes), [DISAGREE, "predictors disagree"]]),
    picker("Gold lost at", "lost", [[ANY, "any"], ...lost.map((stage) => [stage, stage])]),
    ...run.slices.map(([name, values], place) =>
      picker(name[0].toUpperCase() + name.slice(1), `slice${place}`, [[ANY, "any"], ...values.map((v) => [v, v])])),
    make("label", {}, "Words or id", make("input", { name: "words", type: "search", autocomplete: "off" })),
  );

  function matching() {
    const wanted = Object.fromEntries(new FormData(form));
    const words = wanted.words.toLowerCase().split(/\s+/).filter(Boolean);
    return questions.filter(([id, text, cuts, , , rows]) => {
      if (cuts.some((value, place) => wanted[`slice${place}`] && value !== wanted[`slice${place}`])) return false;
      const searched = `${id} ${text}`.toLowerCase();
      if (!words.every((word) => searched.includes(word))) return false;
      if (wanted.outcome === DISAGREE && new Set(rows.map((row) => row[2] === HIT)).size < 2) return false;
      return rows.some(
        (row) =>
          (wanted.predictor === ANY || row[0] === Number(wanted.predictor)) &&
          (wanted.outcome === ANY || wanted.outcome === DISAGREE || row[2] === Number(wanted.outcome)) &&
          (wanted.lost === ANY || row[3] === wanted.lost),
      );
    });
  }

  function tally(found) {
    const body = make("tbody");
    run.predictors.forEach((name, predictor) => {
      const rows = found.flatMap((question) => (question[3] ? question[5] : [])).filter((row) => row[0] === predictor);
      const share = (best) => {
        const count = rows.filter((row) => row[2] <= best).length;
        return rows.length ? `${((100 * count) / rows.length).toFixed(1)}%` : "–";
      };
      const figures = [String(rows.length), share(HIT), share(TOP5), share(SAME_PAGE)];
      body.append(
        make("tr", {}, make("th", { scope: "row" }, name), ...figures.map((f) => make("td", { class: "figure" }, f))),
      );
    });
    const headings = ["predictor", "answers", "strict hit@1", "strict hit@5", "relaxed hit@5"];
    return make("div", { class: "table", role: "region", "aria-label": "Rates of the filtered questions", tabindex: "0" },
      make("table", {},
        make("caption", {}, make("span", {}, "Rates of the filtered questions, exploratory")),
        make("thead", {}, make("tr", {}, ...headings.map((text, place) =>
          make("th", place ? { scope: "col", class: "figure" } : { scope: "col" }, text)))),
        body));
  }

  const outcome = (row) => make("span", { class: TONES[row[2]] }, run.outcomes[row[2]]);
  const named = (row) => run.predictors[row[0]] + (row[1] ? `, repeat ${row[1] + 1}` : "");
  const place = (source, first, last) => run.sources[source] + (first === null ? "" : `:${first}-${last}`);

  function passage(source, first, last, gold) {
    passages ??= data("passages") || {};
    const runs = (Object.hasOwn(passages, run.sources[source]) && passages[run.sources[source]]) || [];
    const end = Math.min(last, first + LONGEST - 1);
    const inGold = (line) => gold.some(([s, a, b]) => s === source && a !== null && a <= line && line <= b);
    const box = make("pre", { class: "passage", tabindex: "0", "aria-label": `Text of ${place(source, first, last)}` });
    for (const [start, lines] of runs) {
      lines.forEach((text, offset) => {
        const line = start + offset;
        if (line < first - AROUND || line > end + AROUND) return;
        const kind = line < first || line > end ? "around" : "own";
        const span = make("span", { class: kind, "data-line": line }, text || " ");
        box.append(inGold(line) ? make("mark", {}, span) : span);
      });
    }
    if (!box.childNodes.length) return make("p", { class: "soft" }, "This report does not include the text.");
    return box;
  }

  // A <details> element whose content is added when the element is first opened.
  function lazy(attributes, summary, content) {
    const details = make("details", attributes, make("summary", {}, ...summary));
    details.addEventListener("toggle", () => {
      if (details.open && details.childNodes.length === 1) details.append(...content());
    });
    return details;
  }

  function hits(row, gold) {
    const marks = [["soft", ""], ["near", " its page"], ["good", " gold"]];
    const list = make("ol", { class: "hits" });
    row[6].forEach(([source, first, last, score, right], rank) => {
      const title = [
        `${rank + 1}. ${place(source, first, last)} `,
        make("span", { class: "soft" }, String(score)),
        make("span", { class: marks[right][0] }, marks[right][1]),
      ];
      list.append(make("li", {}, rank < SHOWN_HITS
        ? lazy({ class: "hit" }, title, () => [passage(source, first, last, gold)])
        : make("span", {}, ...title)));
    });
    return list;
  }

  function answers([, , , answerable, gold, rows]) {
    const parts = [];
    if (!answerable) parts.push(make("p", {}, "The corpus does not answer this question."));
    for (const [source, first, last, quote] of gold) {
      parts.push(lazy({ class: "hit" }, [make("strong", {}, "Gold "), place(source, first, last)], () =>
        [first === null ? make("p", {}, quote || "The whole file.") : passage(source, first, last, gold)]));
    }
    for (const row of rows) {
      parts.push(make("h3", {}, `${named(row)}: `, outcome(row), row[3] ? `, lost at ${row[3]}` : ""));
      if (row[4]) parts.push(make("p", { class: "bad" }, row[4]));
      for (const fallback of row[7]) parts.push(make("p", { class: "near" }, `Fallback: ${fallback}`));
      if (row[5].length && answerable) {
        const path = row[5].map(([stage, rank]) => `${run.stages[stage]} ${rank ?? "absent"}`).join(" → ");
        parts.push(make("p", { class: "soft" }, `Rank of the gold: ${path}`));
      }
      parts.push(row[6].length ? hits(row, gold) : make("p", { class: "soft" }, "No hits."));
    }
    return [make("div", { class: "answer" }, ...parts)];
  }

  // A name with the sign of its outcome. Screen readers and the legend get the outcome as text.
  const sign = (kind, ...words) =>
    make("span", { class: `chip ${TONES[kind]}` }, make("span", { "aria-hidden": "true" }, `${SIGNS[kind]} `), ...words);

  function entry(question) {
    const chips = make("span", { class: "chips" });
    for (const row of question[5]) {
      chips.append(sign(row[2], named(row), make("span", { class: "unseen" }, ` ${run.outcomes[row[2]]}`)), " ");
    }
    const summary = [make("span", { class: "id" }, question[0]), make("span", { class: "text" }, question[1]), chips];
    return lazy({ class: "question" }, summary, () => answers(question));
  }

  let found = [], page = 0;

  function turn(to) {
    page = to;
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    const start = page * PAGE;
    document.getElementById("list").replaceChildren(...found.slice(start, start + PAGE).map(entry));
    const button = (text, target, possible) => {
      const made = make("button", { type: "button" }, text);
      made.disabled = !possible;
      made.addEventListener("click", () => {
        turn(target);
        document.getElementById("questions").scrollIntoView();
      });
      return made;
    };
    document.getElementById("pager").replaceChildren(
      button("Previous", page - 1, page > 0), `Page ${page + 1} of ${pages}`, button("Next", page + 1, page + 1 < pages));
  }

  function filter() {
    found = matching();
    document.getElementById("count").textContent = `${found.length} of ${questions.length} questions`;
    // Without a filter, the table of rates would repeat the table in the section Result.
    document.getElementById("tally").replaceChildren(...(found.length < questions.length ? [tally(found)] : []));
    turn(0);
  }

  const kinds = [...new Set(questions.flatMap((question) => question[5].map((row) => row[2])))].sort();
  document.getElementById("legend").append(...kinds.map((kind) => sign(kind, run.outcomes[kind])));
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();

// Plots: each mark has a text label. Each plot is one tab stop, and arrow keys move between marks.
(() => {
  const REACH = 18; // pixels around the pointer
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true"); // the mark's label has the same text
  tip.hidden = true;
  document.body.append(tip);

  function hide() {
    tip.hidden = true;
  }

  function show(mark) {
    const box = mark.getBoundingClientRect();
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${Math.max(8, Math.min(room, box.left + box.width / 2 - tip.offsetWidth / 2))}px`;
    tip.style.top = `${above > 8 ? above : box.bottom + 8}px`;
  }

  function distance(mark, x, y) {
    const box = mark.getBoundingClientRect();
    return Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
  }

  // Focusing a mark can scroll the page, so its tooltip must move too.
  addEventListener("scroll", () => {
    const mark = document.activeElement;
    if (tip.hidden) return; // Escape closed the tooltip during the scrolling
    if (mark.matches(".plot [aria-label]")) show(mark);
    else hide();
  }, { passive: true });

  for (const drawing of document.querySelectorAll(".plot svg")) {
    const marks = [...drawing.querySelectorAll(".role-mark > [aria-label]")];
    const focus = (mark) => {
      for (const each of marks) each.setAttribute("tabindex", each === mark ? "0" : "-1");
      mark.focus();
    };
    marks.forEach((mark, place) => {
      mark.setAttribute("tabindex", place ? "-1" : "0");
      mark.addEventListener("focus", () => show(mark));
      mark.addEventListener("blur", hide);
    });
    drawing.addEventListener("keydown", (event) => {
      const place = marks.indexOf(document.activeElement);
      const to = {
        ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: marks.length - 1,
      }[event.key];
      if (event.key === "Escape") hide();
      if (to === undefined || place < 0) return;
      event.preventDefault();
      focus(marks[(to + marks.length) % marks.length]);
    });
    drawing.addEventListener("pointermove", ({ clientX, clientY }) => {
      const [near] = marks.map((mark) => [distance(mark, clientX, clientY), mark]).sort((a, b) => a[0] - b[0]);
      if (near && near[0] <= REACH) show(near[1]);
      else hide();
    });
    drawing.addEventListener("pointerleave", hide);
  }
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
})();
