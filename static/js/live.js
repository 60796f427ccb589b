// Live questions: shows both answers as they are written, in step, and keeps the reader's place.
// The votes, questions and everything else are plain forms and links.
(() => {
  document.addEventListener("click", (event) => {
    const example = event.target.closest("[data-example]");
    const question = document.getElementById("question");
    if (!example || !question) return;
    event.preventDefault();
    question.value = example.dataset.example;
    question.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
      event.target.form.requestSubmit();
    }
  });
  // A second press of the same button would ask, or vote, twice.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "1";
    event.submitter?.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => { // as it was left, if the browser brings it back
    for (const form of document.forms) delete form.dataset.sent;
  });

  const page = () => document.getElementById("live");
  if (!page()) return;
  let shownAt = 0;
  let isQuestioned = false;

  const say = (sentence) => {
    page().querySelector("[data-said]").textContent = sentence;
    const line = page().querySelector("[data-result]");
    if (line) line.textContent = sentence;
  };

  const showStored = () => {
    const address = location.pathname;
    if (navigator.onLine) htmx.ajax("GET", address, { target: "#live", select: "#live", swap: "outerHTML show:none" });
    else addEventListener("online", showStored, { once: true });
  };

  const read = (live) => {
    const source = new EventSource(live.dataset.stream);
    const panes = [...live.querySelectorAll("[data-answer]")];
    for (const pane of panes) pane.textContent = ""; // for good: it shows each blank
    let hasBegun = false;
    let silence;
    const stop = (then, wait) => {
      clearTimeout(silence);
      source.close();
      live.classList.remove("writing");
      if (then) setTimeout(then, wait);
    };
    const lose = () => {
      say(live.dataset.lost);
      // What has not begun is not asked for again and again.
      stop(showStored, hasBegun ? 1000 : 5000);
    };
    const listen = (name, then) => source.addEventListener(name, (event) => {
      clearTimeout(silence);
      silence = setTimeout(lose, 10000);
      then?.(event);
    });
    listen("alive");
    listen("part", (event) => {
      const parts = JSON.parse(event.data);
      for (const pane of panes) pane.append(parts[pane.dataset.answer]);
      if (!hasBegun) live.querySelector("[data-said]").textContent = live.dataset.writing;
      hasBegun = true;
      live.classList.add("writing");
    });
    listen("replaced", () => {
      const notice = live.querySelector("[data-replaced]");
      notice.hidden = false;
    });
    listen("end", () => stop(showStored, 0));
    source.addEventListener("error", lose); // it never goes on: the answers ended with the connection
    addEventListener("offline", lose, { once: true });
    live.querySelector("[data-stop]").addEventListener("click", () => stop(showStored, 600));
  };

  const attach = () => {
    const live = page();
    shownAt = performance.now();
    isQuestioned = false;
    if (live.dataset.stream) read(live);
  };

  document.addEventListener("htmx:afterSettle", () => {
    const live = page();
    attach();
    if (live.dataset.stream) live.querySelector(".live-turn:last-of-type")?.scrollIntoView({ block: "start" });
    else if (live.dataset.state === "open") {
      live.querySelector("[data-said]").textContent = live.dataset.ended;
      live.querySelector(".live-turn:last-of-type h2").focus({ preventScroll: true });
    }
    else live.querySelector(".dock .next")?.focus({ preventScroll: true });
    const result = live.dataset.pressed && live.querySelector("[data-result]");
    if (result) live.querySelector("[data-said]").textContent = result.textContent.trim();
  });

  // Nobody has read two answers at once: then a second press counts, as on the voting page.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("form.choices button");
    if (!button || button.value === "skip" || isQuestioned || performance.now() - shownAt > 1000) return;
    isQuestioned = true;
    event.preventDefault();
    event.stopImmediatePropagation();
    say(page().dataset.tooFast);
  }, true);

  const isTyping = (event) =>
    event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat ||
    event.target.closest("input:not([type=checkbox]), textarea, select, summary") ||
    (event.key === "Enter" && event.target.closest("a, button"));
  document.addEventListener("keydown", (event) => {
    if (isTyping(event)) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const button = page().querySelector(`[data-key="${CSS.escape(name)}"]`);
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  attach();
})();
