"use strict";
(() => {
  const data = (id) => JSON.parse(document.getElementById(`data-${id}`).textContent);
  const run = data("run");
  const questions = data("questions");
  let text; // read when the first passage is shown
  const passages = () => (text ??= data("passages") || {});
  const small = questions.length < 50;
  const PAGE = small ? 50 : 20, HIT = 0, DISAGREE = "disagree";
  // With more systems, a column for each would be too narrow, so each cell has the system's name.
  const MOST_COLUMNS = 6;
  const any = (choices) => [["", "any"], ...choices];

  const form = document.getElementById("filters");
  const numbered = (texts) => texts.map((text, number) => [String(number), text]);
  const lost = [...new Set(questions.flatMap((question) => question[5].map((row) => row[3])))].filter(Boolean).sort();
  form.append(
    picker("Predictor", "predictor", any(numbered(run.predictors))),
    picker("Outcome", "outcome", any([...numbered(run.outcomes), [DISAGREE, "predictors disagree"]])),
    picker("Gold lost at", "lost", any(lost.map((stage) => [stage, stage]))),
    ...run.slices.map(([name, values], place) =>
      picker(name[0].toUpperCase() + name.slice(1), `slice${place}`, any(values.map((v) => [v, v])))),
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
          (!wanted.predictor || row[0] === Number(wanted.predictor)) &&
          (!wanted.outcome || wanted.outcome === DISAGREE || row[2] === Number(wanted.outcome)) &&
          (!wanted.lost || row[3] === wanted.lost),
      );
    });
  }

  function tally(found) {
    return ratesTable(run.predictors.map((name, predictor) => {
      const rows = found.flatMap((question) => (question[3] ? question[5] : [])).filter((row) => row[0] === predictor);
      return [name, rows.length, ...[0, 1, 2].map((best) => rows.filter((row) => row[2] <= best).length)];
    }));
  }

  // The rank of the gold in each answer, after the name of its system.
  const cells = (rows) => run.predictors.map((name, predictor) => make("span", { class: "cell" },
    make("span", { class: "who" }, `${name} `),
    ...rows.filter((row) => row[0] === predictor).flatMap(([, , outcome, , , , , , rank]) =>
      [sign(outcome, make("b", {}, rank), make("span", { class: "unseen" }, ` ${run.outcomes[outcome]}`)), " "])));

  const entry = (question, open) => lazy({ class: "question", ...(open ? { open: "" } : {}) },
    [make("span", { class: "asked" }, ...summaryOf(question[0], question[1])), ...cells(question[5])],
    () => [answersOf({ run, question, passages, beside: true })]);

  // The questions of one page, below a heading for what went wrong with them.
  function listed(some, start) {
    return some.flatMap((question, place) => {
      const wrong = question[6], count = found.filter((each) => each[6] === wrong).length;
      const words = `${run.wrong[wrong][0].toUpperCase()}${run.wrong[wrong].slice(1)} (${count})`;
      const above = place && some[place - 1][6] === wrong ? [] : [make("h3", {}, words)];
      return [...above, entry(question, small && start + place === 0 && wrong < 5)];
    });
  }

  let found = [];

  function turn(page) {
    const start = page * PAGE;
    document.getElementById("list").replaceChildren(...listed(found.slice(start, start + PAGE), start));
    document.getElementById("pager").replaceChildren(...pager(page, Math.max(1, Math.ceil(found.length / PAGE)), (to) => {
      turn(to);
      document.getElementById("questions").scrollIntoView();
    }));
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
  if (small) {
    const fold = make("details", { class: "fold" }, make("summary", {}, "Filter the questions"));
    form.replaceWith(fold);
    fold.append(form);
  }
  const grid = document.getElementById("grid");
  grid.style.setProperty("--systems", run.predictors.length);
  grid.classList.toggle("grid", run.predictors.length <= MOST_COLUMNS);
  const heads = run.predictors.map((name) => make("span", { class: "cell" }, name));
  document.getElementById("systems").append(make("span", {}, "question"), ...heads);
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();

// A link to a folded section opens it.
(() => {
  const open = () => {
    const fold = document.getElementById(location.hash.slice(1))?.closest(".fold");
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", open);
  open();
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
