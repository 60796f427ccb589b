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
      button.querySelector("span").textContent = ` ${kept()}`;
      button.setAttribute("aria-label", `Theme: ${kept()}`);
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
