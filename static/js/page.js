// What every page has. It is read before the body is painted, so that nothing flickers.

// Pages that are stored for everybody do not know who reads them. A cookie that names nobody says
// whether somebody is signed in, before the body is painted; base.css shows the words that fit.
document.documentElement.dataset.reader =
  /(^|; )signed_in=1(;|$)/.test(document.cookie) ? "signed-in" : "signed-out";

// Light, dark, or what the system says; remembered in this browser only.
(() => {
  const NEXT = { auto: "light", light: "dark", dark: "auto" };
  const kept = () => {
    try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
  };
  const apply = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply(kept());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-button]");
    const label = () => {
      const words = button.dataset; // in the reader's language
      button.querySelector("span").textContent = ` ${words[kept()]}`;
      button.setAttribute("aria-label", `${words.theme} ${words[kept()]}`);
    };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      const theme = NEXT[kept()];
      try { localStorage.setItem("theme", theme); } catch { /* private window: this page only */ }
      apply(theme);
      label();
    });
  });
})();

// Times are written in UTC, and shown in the reader's time zone; the title keeps UTC.
(() => {
  const day = { day: "numeric", month: "short", year: "numeric" };
  const parts = {
    "": { ...day, hour: "2-digit", minute: "2-digit" },
    date: day,
    time: { hour: "2-digit", minute: "2-digit", second: "2-digit" },
  };
  const localise = (root) => {
    for (const time of root.querySelectorAll("time[data-local]")) {
      const at = new Date(time.dateTime);
      if (!at.getTimezoneOffset()) continue;
      time.title = `${time.dateTime.slice(0, 16).replace("T", " ")} UTC`;
      const { lang } = document.documentElement;
      time.textContent = at.toLocaleString(lang === "en" ? "en-GB" : lang, parts[time.dataset.local]);
      time.removeAttribute("data-local");
    }
  };

  document.addEventListener("DOMContentLoaded", () => localise(document));
  document.addEventListener("htmx:load", (event) => localise(event.target));
})();
