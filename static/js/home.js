// One real pair to vote on: the home page is stored for everybody, so the pair comes from the voting
// page, once the rest is there. Without it, the button leads to that page.
(() => {
  const section = document.querySelector("[data-pair-from]");
  const place = section.querySelector(".try-pair");
  const { pairFrom } = section.dataset;

  const show = (page) => {
    const pair = page.querySelector(".pair");
    const form = pair?.querySelector("form.choices");
    if (!form) throw new Error("There is no pair for this reader.");
    const openedAt = performance.now();
    form.action = new URL(form.getAttribute("action"), new URL(pairFrom, location.href));
    form.addEventListener("submit", (event) => {
      if (form.elements.seconds.value) return event.preventDefault(); // a second click of a double one
      form.elements.seconds.value = ((performance.now() - openedAt) / 1000).toFixed(3);
    });
    for (const part of pair.querySelectorAll("nav, kbd, [data-unfold], [data-copy-answer], [value=skip]")) part.remove();
    const guide = page.querySelector(".guide");
    place.replaceChildren(...(guide ? [guide] : []), pair);
  };

  // Whoever comes back after voting gets another pair.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  addEventListener("load", async () => {
    try {
      const answer = await fetch(pairFrom); // which makes no rater of whoever only looks
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      place.classList.remove("try-pair"); // the button stays, and needs little room
    }
  });
})();
