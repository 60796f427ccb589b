// Reading two answers: on a phone one at a time, with tabs that always say which.
(() => {
  const ballot = document.getElementById("ballot");

  const markTab = (pair, index) => {
    pair.querySelectorAll(".tabs a").forEach((tab, place) => {
      if (place === index) tab.setAttribute("aria-current", "true");
      else tab.removeAttribute("aria-current");
    });
  };

  const showAnswer = (pair, index) => {
    const answers = pair.querySelector(".answers");
    answers.scrollTo({ left: index * answers.clientWidth });
    markTab(pair, index);
  };

  ballot.addEventListener("click", (event) => {
    const tab = event.target.closest(".tabs a");
    if (!tab) return;
    event.preventDefault();
    const pair = tab.closest(".pair");
    showAnswer(pair, [...pair.querySelectorAll(".tabs a")].indexOf(tab));
  });

  // A swipe scrolls the answers; scroll events do not bubble.
  ballot.addEventListener("scroll", (event) => {
    if (!event.target.matches?.(".answers")) return;
    const { scrollLeft, clientWidth } = event.target;
    markTab(event.target.closest(".pair"), Math.round(scrollLeft / clientWidth));
  }, { capture: true, passive: true });
})();
