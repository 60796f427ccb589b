// Reading two answers: tabs on a phone, a folded prompt, frames that scroll together, copying, word
// counts, and the words in which the answers differ. Nothing here is needed to vote.
(() => {
  const floor = document.querySelector("[data-floor]");
  const ballot = document.getElementById("ballot");
  const differences = document.querySelector("[data-differences]");
  if (!differences) return;
  floor.classList.add("reads");

  const onScreen = () => ballot.querySelector(".pair");
  const prosesOf = (pair) => [...pair.querySelectorAll(".answer > .prose")];

  // -- Tabs for long answers on a phone: short ones stand one below the other -----------------------

  const isPhone = matchMedia("(max-width: 760px)");
  const MOST_SCREENS = 1.5; // of both answers together

  const showAnswer = (pair, index) => {
    pair.querySelectorAll(".tabs a").forEach((tab, place) => {
      if (place === index) tab.setAttribute("aria-current", "true");
      else tab.removeAttribute("aria-current");
    });
    pair.querySelectorAll(".answer").forEach((answer, place) => answer.classList.toggle("aside", place !== index));
  };

  const chooseTabs = (pair) => {
    pair.classList.remove("tabbed");
    const height = prosesOf(pair).reduce((sum, prose) => sum + prose.scrollHeight, 0);
    pair.classList.toggle("tabbed", isPhone.matches && height > MOST_SCREENS * innerHeight);
    showAnswer(pair, 0);
  };

  // Far down a long answer, a short one beside it would be an empty screen.
  const followTab = (tab) => {
    const pair = tab.closest(".pair");
    showAnswer(pair, [...pair.querySelectorAll(".tabs a")].indexOf(tab));
    if (!pair.classList.contains("tabbed")) return;
    const { top } = pair.querySelector(".tabs").getBoundingClientRect();
    const { bottom } = pair.querySelector(".answer:not(.aside)").getBoundingClientRect();
    if (bottom < innerHeight / 2) window.scrollBy({ top: pair.querySelector(".answers").getBoundingClientRect().top - top - 44 });
  };

  // -- Folding: the first screen shows answers, whatever the length of the prompt -------------------

  // A prompt is folded only if that saves more room than its button takes.
  const fold = (prompt) => {
    const prose = prompt.querySelector(".prose");
    const button = prompt.querySelector("[data-unfold]");
    prompt.classList.add("folded");
    button.hidden = true;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const taken = parseFloat(getComputedStyle(prompt).getPropertyValue("--unfold")) * rem;
    const isLong = prose.scrollHeight - prose.clientHeight > taken;
    prompt.classList.toggle("folded", isLong);
    button.hidden = !isLong;
  };

  const unfold = (button) => {
    button.closest(".prompt").classList.remove("folded");
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
    if (target.matches?.(".linked .answer > .prose")) scrollOther(target);
  }, { capture: true, passive: true });

  // -- Words that differ ----------------------------------------------------------------------------

  const WORD = /[\p{L}\p{N}]+(?:['’.,:-][\p{L}\p{N}]+)*/gu;
  const MOST_STEPS = 4_000_000;
  const OVERLAP = 0.6; // the share of words in common, in this order, beyond which differences are offered

  const wordsOf = (prose) => {
    const words = [];
    const texts = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      if (node.parentElement.closest(".thought")) continue;
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

  // The words that only one answer has; none if these are so many that marking them would not help.
  const differingWords = (left, right) => {
    if (left.length * right.length > MOST_STEPS) return [];
    const common = commonWords(left, right);
    if (common.size <= OVERLAP * (left.length + right.length)) return [];
    return [...left, ...right].filter((word) => !common.has(word));
  };

  const areHighlighted = () => differences.getAttribute("aria-pressed") === "true";

  const highlight = () => {
    if (!CSS.highlights) return;
    CSS.highlights.delete("differs");
    const pair = onScreen();
    const words = pair ? differingWords(...prosesOf(pair).map(wordsOf)) : [];
    differences.hidden = !words.length;
    if (!areHighlighted()) return;
    const ranges = words.map((word) => {
      const range = new Range();
      range.setStart(word.node, word.start);
      range.setEnd(word.node, word.end);
      return range;
    });
    CSS.highlights.set("differs", new Highlight(...ranges));
  };

  differences.addEventListener("click", () => {
    differences.setAttribute("aria-pressed", String(!areHighlighted()));
    highlight();
  });

  // -- Copying, counting, settings ------------------------------------------------------------------

  // Neither an answer's thought nor the summary of its fold.
  const saidIn = (prose) => {
    const thoughts = prose.querySelectorAll(".thought");
    for (const thought of thoughts) thought.hidden = true;
    const said = prose.innerText;
    for (const thought of thoughts) thought.hidden = false;
    return said;
  };

  const copy = async (button) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(saidIn(button.closest(".answer").querySelector(".prose")));
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
      const n = saidIn(prose).match(/\S+/g)?.length ?? 0;
      count.textContent = n === 1 ? floor.dataset.oneWord : floor.dataset.manyWords.replace("{n}", n);
      count.hidden = !setting("words").checked;
      prose.parentElement.querySelector("[data-copy-answer]").hidden = !navigator.clipboard;
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
      followTab(tab);
    } else if (button?.matches("[data-unfold]")) unfold(button);
    else if (button?.matches("[data-copy-answer]")) copy(button);
  });

  const prepare = () => {
    const pair = onScreen();
    differences.hidden = true;
    if (!pair) return;
    fold(pair.querySelector(".prompt"));
    applySettings();
    chooseTabs(pair);
    highlight();
  };

  document.addEventListener("ballot:shown", prepare);
  document.addEventListener("ballot:named", applySettings);
  prepare();
})();
