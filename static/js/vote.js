// The voting page: fetches the next pair while this one is being read, shows it without waiting for
// the vote's response, and adds keyboard shortcuts. Without this script, every button is a plain form,
// and the next pair a link.
(() => {
  const floor = document.querySelector("[data-floor]");
  const ballot = document.getElementById("ballot");
  const ahead = document.getElementById("ahead");
  const behind = document.getElementById("behind");
  const after = document.getElementById("after");
  const next = document.querySelector("[data-next]");
  const said = document.querySelector("[data-said]");
  if (!ahead) return;
  const says = floor.dataset; // sentences in the reader’s language

  // -- Settings, kept in this browser ---------------------------------------------------------------

  const settings = {};
  for (const box of document.querySelectorAll("[data-setting]")) {
    const name = `vote-${box.dataset.setting}`;
    settings[box.dataset.setting] = box;
    try {
      const kept = localStorage.getItem(name);
      if (kept) box.checked = kept === "on";
    } catch { /* stays as it is */ }
    box.addEventListener("change", () => {
      try { localStorage.setItem(name, box.checked ? "on" : "off"); } catch { /* this page only */ }
    });
  }

  // -- Pairs: on the screen, ahead of it, and behind it until their votes are saved -----------------

  const pairIn = (element) => element.querySelector(".pair");
  const keyIn = (element) => pairIn(element)?.dataset.key;
  const underWay = new Map(); // pairs by key, while their votes are being sent
  let isFetching = false;
  let wantsNext = false;

  // A fetch that took longer than the vote may return a pair that was on the screen already.
  const shown = new Set([keyIn(ballot)]);
  const hasNextPair = () => ahead.firstElementChild && !shown.has(keyIn(ahead));
  const isVoted = () => floor.dataset.state === "voted";

  // Whoever only looks is no rater yet, and gets no second pair.
  const isPreview = () => ballot.querySelector("[name=sealed]");

  const fetchNextPair = () => {
    if (!keyIn(ballot) || isFetching || isPreview()) return;
    isFetching = true;
    const besides = new Set([keyIn(ballot), ...underWay.keys()]);
    const query = [...besides].map((key) => `besides=${key}`).join("&");
    htmx.ajax("GET", `${ahead.dataset.from}?${query}`, { source: "#ahead", target: "#ahead", swap: "innerHTML" });
  };

  // How long the pair has been open, and whether a press too soon has been questioned.
  let openedAt = performance.now();
  let isQuestioned = false;

  const showBallot = () => {
    openedAt = performance.now();
    isQuestioned = false;
    if (isVoted()) after.replaceChildren(); // it was read beside its pair
    floor.dataset.state = "open";
    next.hidden = true;
    leadTo(".");
    htmx.process(ballot); // now, or a key pressed while htmx settles would send a plain form
    shown.add(keyIn(ballot));
    document.querySelector("[data-notice]")?.remove();
    if (!hasNextPair()) ahead.replaceChildren();
    window.scrollTo({ top: 0 });
    ballot.querySelector("[data-start]")?.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("ballot:shown", { detail: pairIn(ballot) }));
    if (!ahead.firstElementChild) fetchNextPair();
  };

  const showNextPair = () => {
    wantsNext = !hasNextPair();
    if (wantsNext) return fetchNextPair();
    const current = pairIn(ballot);
    if (current && underWay.has(current.dataset.key)) behind.append(current);
    ballot.replaceChildren(...ahead.childNodes);
    showBallot();
  };

  // After the last vote of a round, the link leads to what its votes have moved.
  const leadTo = (address) => {
    next.setAttribute("href", address);
    next.querySelector("span").textContent = address === "." ? says.nextPair : says.roundDone;
  };

  next.addEventListener("click", (event) => {
    if (next.getAttribute("href") !== ".") return;
    event.preventDefault();
    showNextPair();
  });

  // -- Voting ---------------------------------------------------------------------------------------

  const isVote = (event) => event.target.matches("form.choices");
  const pairOf = (event) => event.target.closest(".pair");
  const goesOn = (outcome) => settings["at-once"].checked || outcome === "skip";

  const markVoted = (pair, outcome) => {
    floor.dataset.state = "voted";
    floor.dataset.pressed = outcome; // the next pair is one press of the same thumb away
    after.replaceChildren();
    const tabs = pair.querySelectorAll(".tabs a");
    pair.querySelectorAll(".answer").forEach((answer, index) => {
      const isChosen = answer.dataset.side === outcome;
      answer.classList.toggle("chosen", isChosen);
      answer.querySelector(".choice").hidden = !isChosen;
      if (isChosen) tabs[index].click(); // on a phone the other one may be on the screen
    });
    next.hidden = false;
    next.focus({ preventScroll: true });
    setTimeout(() => {
      if (keyIn(ballot) === pair.dataset.key && underWay.has(pair.dataset.key)) tell(says.saving, "result");
    }, 400);
  };

  const unmark = (pair) => {
    for (const answer of pair.querySelectorAll(".answer")) {
      answer.classList.remove("chosen");
      answer.querySelector(".choice").hidden = true;
    }
  };

  const nameTabs = (pair) => {
    const names = pair.querySelectorAll(".answer h2 strong");
    pair.querySelectorAll(".tabs a").forEach((tab, index) => {
      if (names[index]) tab.textContent = names[index].textContent;
    });
  };

  // If no pair has been fetched, the response must contain the next one.
  document.addEventListener("htmx:configRequest", (event) => {
    const { parameters } = event.detail;
    if (isVote(event) && goesOn(parameters.outcome) && !hasNextPair()) parameters.with_next = "1";
  });

  document.addEventListener("htmx:beforeSend", (event) => {
    if (!isVote(event)) return;
    const pair = pairOf(event);
    const { outcome, with_next: comesWithIt } = event.detail.requestConfig.parameters;
    underWay.set(pair.dataset.key, pair);
    if (!goesOn(outcome)) markVoted(pair, outcome);
    else if (!comesWithIt) {
      after.replaceChildren();
      showNextPair();
    }
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.target === ahead) {
      isFetching = false;
      const { xhr, successful } = event.detail;
      if (!wantsNext) return;
      if (successful && hasNextPair()) showNextPair();
      else if (successful) location.assign(location.pathname); // which says why there is none
      else wantsNext = false;
      return;
    }
    if (!isVote(event) || !event.detail.successful) return;
    const pair = pairOf(event);
    underWay.delete(pair.dataset.key);
    pair.querySelector("[name=sealed]")?.remove(); // its reader is a rater now
    if (behind.contains(pair)) pair.remove();
    else if (isVoted() && !ahead.firstElementChild) fetchNextPair();
  });

  // A pair that came back for the failure of the one before it stays ahead.
  // Facts that come after the rater has gone on have no place any more.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, requestConfig } = event.detail;
    const key = requestConfig.path.match(/([^/]+)\/facts\/$/)?.[1];
    const isLate = key && !document.getElementById(`facts-left-${key}`);
    if (isLate || (target === ahead && hasNextPair())) event.detail.shouldSwap = false;
  });

  document.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target === ballot) showBallot();
  });

  // The names have come, above the answers if these are still there.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== after) return;
    said.textContent = after.querySelector(".result")?.textContent ?? "";
    const result = after.querySelector("[data-after]");
    if (!result && isVoted()) { // it was undone
      unmark(pairIn(ballot));
      leadTo(".");
    }
    if (!result || !isVoted() || result.dataset.after !== keyIn(ballot)) return;
    nameTabs(pairIn(ballot));
    document.dispatchEvent(new CustomEvent("ballot:named"));
    if (result.dataset.round) leadTo(result.dataset.round);
    // Not from the result, which is gone once the rater goes on: its events would reach nobody.
    if (result.dataset.facts) htmx.ajax("GET", result.dataset.facts, { source: said, target: said, swap: "none" });
  });

  // The second click of a double click would vote on the next pair, or leave this one.
  document.addEventListener("click", (event) => {
    if (event.detail < 2 || !event.target.closest("form.choices, [data-next]")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // Buttons always work, but nobody has read a pair at once: then a second press counts. The limit is
  // twice the time below which the server knows that nobody has (arena/db/sql.py).
  document.addEventListener("click", (event) => {
    const button = event.target.closest("form.choices button");
    if (!button) return;
    const seconds = (performance.now() - openedAt) / 1000;
    button.form.elements.seconds.value = seconds.toFixed(3);
    const proses = [...ballot.querySelectorAll(".answer > .prose")]; // not the page's own words and blanks
    const length = proses.reduce((sum, prose) => sum + prose.textContent.length, 0);
    if (isQuestioned || button.value === "skip" || seconds > 2 * Math.min(0.5 + length / 4000, 1.5)) return;
    isQuestioned = true;
    event.preventDefault();
    event.stopImmediatePropagation();
    tell(says.tooFast, "result long warn");
  }, true);

  // Without its query, a reload shows no notice about an earlier pair.
  if (location.search) history.replaceState(null, "", location.pathname);

  // -- Failures: the pair comes back ----------------------------------------------------------------

  const tell = (message, className) => {
    const line = document.createElement("p");
    line.className = className;
    line.textContent = said.textContent = message;
    after.replaceChildren(line);
  };

  const bringBack = (pair) => {
    underWay.delete(pair.dataset.key);
    unmark(pair);
    if (pair.parentElement === behind) {
      const current = pairIn(ballot);
      if (current && underWay.has(current.dataset.key)) behind.append(current);
      else if (current && !isVoted()) {
        shown.delete(current.dataset.key);
        ahead.replaceChildren(current);
      }
      ballot.replaceChildren(pair);
    }
    showBallot();
  };

  const fail = (event, reason) => {
    if (event.target === ahead && !wantsNext) return;
    if (event.target.matches("[data-said], #after")) return; // facts about a vote, saved or withdrawn
    if (event.target.matches(".reasons")) {
      event.target.querySelector("[data-saved]").textContent = says.reasonsLost;
      return;
    }
    if (isVote(event)) bringBack(pairOf(event));
    tell(reason, "result long warn");
  };

  const failUnsure = (event) => {
    fail(event, isVote(event) ? says.voteUnreachable : says.unreachable);
  };
  document.addEventListener("htmx:sendError", failUnsure);
  document.addEventListener("htmx:timeout", failUnsure);
  document.addEventListener("htmx:responseError", (event) => {
    const unsure = event.detail.xhr.status >= 500;
    fail(event, !isVote(event) ? says.failed : unsure ? says.voteUnsure : says.voteFailed);
  });

  // -- The last ten votes ---------------------------------------------------------------------------

  const recent = document.getElementById("recent");
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-recent-open]"); // each vote brings a new one
    if (!opener || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    htmx.ajax("GET", opener.href, { source: opener, target: "#recent-list", swap: "innerHTML" });
    recent.showModal();
  });

  // -- Keyboard shortcuts, which can be turned off --------------------------------------------------

  const isTyping = (event) =>
    event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat || recent.open ||
    event.target.closest("input:not([type=checkbox]), textarea, select, .scroll, summary") ||
    (event.key === "Enter" && event.target.closest("a, button"));

  const isVisible = (button) => button.offsetParent !== null;

  document.addEventListener("keydown", (event) => {
    if (!settings.keys.checked || isTyping(event)) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const button = name === "h" ? document.querySelector("[data-recent-open]")
      : /^[1-9]$/.test(name) ? after.querySelectorAll(".reasons input[type=checkbox]")[name - 1]
      : [...floor.querySelectorAll(`[data-key="${CSS.escape(name)}"]:is(a, button)`)].find(isVisible);
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  fetchNextPair();
})();
