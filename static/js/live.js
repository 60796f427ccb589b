// Live questions: shows both answers as they are written, in step, and adds keyboard shortcuts.
// Everything else on these pages is plain links and forms.
(() => {
  const question = document.getElementById("question");
  document.addEventListener("click", (event) => {
    const example = event.target.closest("[data-example]");
    if (!example || !question) return;
    event.preventDefault();
    question.value = example.dataset.example;
    question.focus();
  });
  question?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    question.form.requestSubmit();
  });
  // A second press of the same button would ask, or vote, twice.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "1";
  });
  addEventListener("pageshow", () => { // as it was left, if the browser brings it back
    for (const form of document.forms) delete form.dataset.sent;
  });

  const live = document.getElementById("live");
  if (!live) return;

  const isTyping = (event) =>
    event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat ||
    event.target.closest("input, textarea, select, summary") ||
    (event.key === "Enter" && event.target.closest("a, button"));
  document.addEventListener("keydown", (event) => {
    if (isTyping(event)) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const button = live.querySelector(`[data-key="${CSS.escape(name)}"]`);
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  if (!live.dataset.stream) return;
  const says = live.dataset;
  const said = live.querySelector("[data-said]");
  const panes = { left: live.querySelector("[data-answer=left]"), right: live.querySelector("[data-answer=right]") };
  const source = new EventSource(says.stream);
  // The page again, from what is stored by then.
  const showStored = () => {
    source.close();
    location.replace(location.pathname);
  };
  let hasBegun = false;
  source.addEventListener("part", (event) => {
    const parts = JSON.parse(event.data);
    for (const side of ["left", "right"]) panes[side].append(parts[side]);
    if (!hasBegun) said.textContent = says.writing;
    hasBegun = true;
    live.classList.add("writing");
  });
  source.addEventListener("replaced", () => {
    const notice = live.querySelector("[data-replaced]");
    notice.hidden = false;
    said.textContent = notice.textContent;
  });
  source.addEventListener("end", showStored);
  // It never comes back by itself: the answers have ended with the connection.
  source.addEventListener("error", () => {
    source.close();
    live.classList.remove("writing");
    live.querySelector("[data-wait]").textContent = said.textContent = says.lost;
    if (navigator.onLine) setTimeout(showStored, 1000);
    else addEventListener("online", showStored, { once: true });
  });
  live.querySelector("[data-stop]").addEventListener("click", (event) => {
    event.preventDefault();
    source.close();
    setTimeout(showStored, 600); // by then the server has stored what was shown
  });
})();
