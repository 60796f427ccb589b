// The voting page: fetches the next pair while this one is being read, and adds keyboard shortcuts.
// Without this script, every button is a plain form.
(() => {
  const ballot = document.getElementById("ballot");
  const ahead = document.getElementById("ahead");
  if (!ahead) return;

  const keyIn = (element) => element.querySelector(".pair")?.dataset.key;

  // A fetch that took longer than the vote may return a pair that was on the screen already.
  const shown = new Set([keyIn(ballot)]);
  const hasNextPair = () => ahead.firstElementChild && !shown.has(keyIn(ahead));

  const fetchNextPair = () => {
    if (!keyIn(ballot)) return;
    const url = `${ahead.dataset.next}?besides=${keyIn(ballot)}`;
    htmx.ajax("GET", url, { source: "#ahead", target: "#ahead", swap: "innerHTML" });
  };

  const showBallot = () => {
    htmx.process(ballot); // now, or a key pressed while htmx settles would send a plain form
    shown.add(keyIn(ballot));
    document.querySelector("[data-notice]")?.remove();
    if (!hasNextPair()) ahead.replaceChildren();
    window.scrollTo({ top: 0 });
    ballot.querySelector("[data-start]")?.focus({ preventScroll: true });
    if (!ahead.firstElementChild) fetchNextPair();
  };

  const isVote = (event) => event.target.matches("form.choices");

  // If no pair has been fetched, the response must contain the next one.
  document.addEventListener("htmx:configRequest", (event) => {
    if (isVote(event) && !hasNextPair()) event.detail.parameters.with_next = "1";
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const { successful, xhr, requestConfig } = event.detail;
    if (!isVote(event) || !successful || xhr.getResponseHeader("HX-Redirect")) return;
    if (requestConfig.parameters.with_next) return;
    ballot.replaceChildren(...ahead.childNodes);
    showBallot();
  });

  document.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target === ballot) showBallot();
  });

  // The second click of a double click would vote on the next pair.
  document.addEventListener("click", (event) => {
    if (event.detail < 2 || !event.target.closest("form.choices")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // Without its query, a reload shows no notice about an earlier pair.
  if (location.search) history.replaceState(null, "", location.pathname);

  const warn = (message) => {
    const line = document.createElement("p");
    line.className = "notice warn";
    line.textContent = message;
    document.getElementById("after").replaceChildren(line);
  };
  document.addEventListener("htmx:sendError", (event) => {
    const unsure = isVote(event) ? " Your vote may not have been saved." : "";
    warn(`The server can’t be reached.${unsure} Please try again.`);
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.target === ahead) return;
    const unsure = event.detail.xhr.status >= 500;
    const lost = !isVote(event) ? "nothing was changed"
      : unsure ? "your vote may not have been saved" : "your vote was not saved";
    warn(`Something went wrong; ${lost}. Reload the page and try again.`);
  });

  // Keyboard shortcuts, which can be turned off.
  const keySwitch = document.querySelector("[data-keys-switch]");
  try { keySwitch.checked = localStorage.getItem("vote-keys") !== "off"; } catch { /* stays on */ }
  keySwitch.addEventListener("change", () => {
    try { localStorage.setItem("vote-keys", keySwitch.checked ? "on" : "off"); } catch { /* this page only */ }
  });

  const isTyping = (event) =>
    event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat ||
    event.target.closest("input:not([type=checkbox]), textarea, select, .scroll, summary");

  document.addEventListener("keydown", (event) => {
    if (!keySwitch.checked || isTyping(event)) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const scope = name === "u" ? "#after" : "#ballot";
    const button = document.querySelector(`${scope} button[data-key="${CSS.escape(name)}"]`);
    if (!button || button.disabled) return;
    event.preventDefault();
    button.click();
  });

  fetchNextPair();
})();
