// Reading two answers: tabs on a phone, folding, frames that scroll together, copying, word counts,
// and the words in which the answers differ. Nothing here is needed to vote.
(() => {
  const floor = document.querySelector("[data-floor]");
  const ballot = document.getElementById("ballot");
  const differences = document.querySelector("[data-differences]");
  if (!differences) return;
  floor.classList.add("reads");

  const onScreen = () => ballot.querySelector(".pair");
  const prosesOf = (pair) => [...pair.querySelectorAll(".answer > .prose")];

  // -- Tabs, which follow a swipe -------------------------------------------------------------------

  const markTab = (pair, index) => {
    pair.querySelectorAll(".tabs a").forEach((tab, place) => {
      if (place === index) tab.setAttribute("aria-current", "true");
      else tab.removeAttribute("aria-current");
    });
  };

  const showAnswer = (tab) => {
    const pair = tab.closest(".pair");
    const index = [...pair.querySelectorAll(".tabs a")].indexOf(tab);
    const answers = pair.querySelector(".answers");
    answers.scrollTo({ left: index * answers.clientWidth });
    markTab(pair, index);
    showText(answers, index);
  };

  // Far down a long answer, a short one beside it would be an empty screen.
  const showText = (answers, index) => {
    const tabs = answers.previousElementSibling.getBoundingClientRect();
    const { top } = answers.getBoundingClientRect();
    const { bottom } = answers.children[index].querySelector(".prose").getBoundingClientRect();
    if (tabs.height && bottom < tabs.bottom) window.scrollBy({ top: top - tabs.height });
  };

  // -- Folding: long answers end at the same place --------------------------------------------------

  const SPARED = 0.3; // texts that are only a little longer than the fold are shown whole

  // A prompt is folded only if that saves more room than its button takes.
  const fold = (folded, texts, button) => {
    folded.classList.add("folded");
    button.hidden = true;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const taken = parseFloat(getComputedStyle(folded).getPropertyValue("--unfold")) * rem;
    const isLong = texts.some(({ scrollHeight, clientHeight }) =>
      scrollHeight - clientHeight > (taken || clientHeight * SPARED));
    folded.classList.toggle("folded", isLong);
    button.hidden = !isLong;
  };

  const unfold = (button) => {
    (button.closest(".prompt") ?? button.closest(".pair").querySelector(".answers")).classList.remove("folded");
    button.hidden = true;
  };

  // -- Frames that scroll together ------------------------------------------------------------------

  let follower = null; // scrolled by this script, so its own event moves nothing

  const scrollOther = (prose) => {
    if (prose === follower) {
      follower = null;
      return;
    }
    const other = prosesOf(prose.closest(".pair")).find((text) => text !== prose);
    const share = prose.scrollTop / Math.max(1, prose.scrollHeight - prose.clientHeight);
    const top = Math.round(share * (other.scrollHeight - other.clientHeight));
    if (top === Math.round(other.scrollTop)) return;
    follower = other;
    other.scrollTop = top;
  };

  ballot.addEventListener("scroll", ({ target }) => {
    if (target.matches?.(".answers")) markTab(target.closest(".pair"), Math.round(target.scrollLeft / target.clientWidth));
    else if (target.matches?.(".linked .answer > .prose")) scrollOther(target);
  }, { capture: true, passive: true });

  ballot.addEventListener("scrollend", ({ target }) => {
    if (target.matches?.(".answers")) showText(target, Math.round(target.scrollLeft / target.clientWidth));
  }, { capture: true, passive: true });

  // -- Words that differ ----------------------------------------------------------------------------

  const WORD = /[\p{L}\p{N}]+(?:['’.,:-][\p{L}\p{N}]+)*/gu;
  const MOST_STEPS = 4_000_000;
  const ALIKE = 0.4; // answers with less in common, in this order, are compared as sets of words

  const wordsOf = (prose) => {
    const words = [];
    const texts = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      for (const found of node.data.matchAll(WORD)) {
        words.push({ text: found[0].toLowerCase(), node, start: found.index, end: found.index + found[0].length });
      }
    }
    return words;
  };

  // The longest common subsequence: which words of both belong to it.
  const commonWords = (left, right) => {
    const width = right.length + 1;
    const lengths = new Uint16Array((left.length + 1) * width);
    for (let i = left.length - 1; i >= 0; i--) {
      for (let j = right.length - 1; j >= 0; j--) {
        const at = i * width + j;
        lengths[at] = left[i].text === right[j].text ? lengths[at + width + 1] + 1
          : Math.max(lengths[at + width], lengths[at + 1]);
      }
    }
    const common = new Set();
    for (let i = 0, j = 0; i < left.length && j < right.length;) {
      if (left[i].text === right[j].text) common.add(left[i++]).add(right[j++]);
      else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
      else j++;
    }
    return common;
  };

  const differingWords = (left, right) => {
    if (left.length * right.length <= MOST_STEPS) {
      const common = commonWords(left, right);
      if (common.size >= 2 * ALIKE * Math.max(left.length, right.length)) {
        return [...left, ...right].filter((word) => !common.has(word));
      }
    }
    const [onLeft, onRight] = [left, right].map((words) => new Set(words.map((word) => word.text)));
    return [...left.filter((word) => !onRight.has(word.text)), ...right.filter((word) => !onLeft.has(word.text))];
  };

  const areHighlighted = () => differences.getAttribute("aria-pressed") === "true";

  const highlight = () => {
    CSS.highlights.delete("differs");
    const pair = onScreen();
    if (!pair || !areHighlighted()) return;
    const [left, right] = prosesOf(pair).map(wordsOf);
    const ranges = differingWords(left, right).map((word) => {
      const range = new Range();
      range.setStart(word.node, word.start);
      range.setEnd(word.node, word.end);
      return range;
    });
    CSS.highlights.set("differs", new Highlight(...ranges));
  };

  if (CSS.highlights) {
    differences.hidden = false;
    differences.addEventListener("click", () => {
      differences.setAttribute("aria-pressed", String(!areHighlighted()));
      highlight();
    });
  }

  // -- Copying, counting, settings ------------------------------------------------------------------

  const copy = async (button) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.closest(".answer").querySelector(".prose").innerText);
      button.textContent = button.dataset.copied;
    } catch {
      button.textContent = button.dataset.notCopied;
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  };

  const setting = (name) => document.querySelector(`[data-setting="${name}"]`);

  const applySettings = () => {
    floor.classList.toggle("wrap", setting("wrap").checked);
    floor.classList.toggle("linked", setting("linked").checked);
    const pair = onScreen();
    if (!pair) return;
    const steps = prosesOf(pair).map((prose) => [...prose.querySelectorAll("[data-step]")]);
    if (steps[0].length && steps[1].length && steps[0].length + steps[1].length > 2) {
      for (const [side, other] of [steps, [...steps].reverse()]) {
        side.forEach((step, i) => step.classList.toggle("differs", step.textContent !== other[i]?.textContent));
      }
    }
    for (const prose of prosesOf(pair)) {
      const count = prose.parentElement.querySelector("[data-words]");
      const n = prose.innerText.match(/\S+/g)?.length ?? 0;
      count.textContent = n === 1 ? floor.dataset.oneWord : floor.dataset.manyWords.replace("{n}", n);
      count.hidden = !setting("words").checked;
      if (setting("linked").checked) prose.tabIndex = 0; // a frame that the keyboard can scroll
      else prose.removeAttribute("tabindex");
    }
  };

  for (const name of ["words", "wrap", "linked"]) setting(name).addEventListener("change", applySettings);

  ballot.addEventListener("click", (event) => {
    const tab = event.target.closest(".tabs a");
    const button = event.target.closest("button");
    if (tab) {
      event.preventDefault();
      showAnswer(tab);
    } else if (button?.matches("[data-unfold]")) unfold(button);
    else if (button?.matches("[data-copy-answer]")) copy(button);
  });

  const prepare = () => {
    const pair = onScreen();
    if (!pair) return;
    const prompt = pair.querySelector(".prompt");
    fold(prompt, [prompt.querySelector(".prose")], prompt.querySelector("[data-unfold]"));
    fold(pair.querySelector(".answers"), prosesOf(pair), pair.querySelector(":scope > [data-unfold]"));
    for (const button of pair.querySelectorAll("[data-copy-answer]")) button.hidden = !navigator.clipboard;
    applySettings();
    highlight();
  };

  document.addEventListener("ballot:shown", prepare);
  prepare();
})();
