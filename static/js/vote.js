// The voting page without waiting: the next pair is fetched while this one is read, and keys vote.
// Without this file every button is a plain form.
(() => {
  const ballot = document.getElementById("ballot");
  const ahead = document.getElementById("ahead");
  if (!ahead) return;

  const keyIn = (place) => place.querySelector(".pair")?.dataset.key;

  // A fetch that was slower than its reader brings a pair that has been on the screen already.
  const shown = new Set([keyIn(ballot)]);
  const inHand = () => ahead.firstElementChild && !shown.has(keyIn(ahead));

  const fetchAhead = () => {
    if (!keyIn(ballot)) return;
    const url = `${ahead.dataset.next}?besides=${keyIn(ballot)}`;
    htmx.ajax("GET", url, { source: "#ahead", target: "#ahead", swap: "innerHTML" });
  };

  const show = () => {
    htmx.process(ballot); // at once: a key in htmx's settling time would send a plain form
    shown.add(keyIn(ballot));
    document.querySelector("[data-notice]")?.remove();
    if (!inHand()) ahead.replaceChildren();
    window.scrollTo({ top: 0 });
    ballot.querySelector("[data-start]")?.focus({ preventScroll: true });
    if (!ahead.firstElementChild) fetchAhead();
  };

  const isVote = (event) => event.target.matches("form.choices");

  // Without a pair in hand the server is asked to send one along with its answer.
  document.addEventListener("htmx:configRequest", (event) => {
    if (isVote(event) && !inHand()) event.detail.parameters.with_next = "1";
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const { successful, xhr, requestConfig } = event.detail;
    if (!isVote(event) || !successful || xhr.getResponseHeader("HX-Redirect")) return;
    if (requestConfig.parameters.with_next) return;
    ballot.replaceChildren(...ahead.childNodes);
    show();
  });

  document.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target === ballot) show();
  });

  // The second half of a double click would fall on the pair that has just come.
  document.addEventListener("click", (event) => {
    if (event.detail < 2 || !event.target.closest("form.choices")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // What was said of an earlier pair must not stand over the next one, or come back on a reload.
  if (location.search) history.replaceState(null, "", location.pathname);

  const say = (sentence) => {
    const line = document.createElement("p");
    line.className = "notice warn";
    line.textContent = sentence;
    document.getElementById("after").replaceChildren(line);
  };
  document.addEventListener("htmx:sendError", () => {
    say("The server cannot be reached. Your vote was not sent; please try again.");
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.target === ahead) return;
    say("The server could not take that. Reload the page and vote again: nothing is counted twice.");
  });

  // Keys, which a person can switch off.
  const keySwitch = document.querySelector("[data-keys-switch]");
  try { keySwitch.checked = localStorage.getItem("vote-keys") !== "off"; } catch { /* stays on */ }
  keySwitch.addEventListener("change", () => {
    try { localStorage.setItem("vote-keys", keySwitch.checked ? "on" : "off"); } catch { /* this page only */ }
  });

  const busy = (event) =>
    event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat ||
    event.target.closest("input:not([type=checkbox]), textarea, select, .scroll, summary");

  document.addEventListener("keydown", (event) => {
    if (!keySwitch.checked || busy(event)) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const scope = name === "u" ? "#after" : "#ballot";
    const button = document.querySelector(`${scope} button[data-key="${CSS.escape(name)}"]`);
    if (!button || button.disabled) return;
    event.preventDefault();
    button.click();
  });

  fetchAhead();
})();
