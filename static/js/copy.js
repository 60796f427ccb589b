// A button beside a secret that is shown once; without scripts it is not there.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  const secret = document.getElementById(button.dataset.copy);
  if (!secret || !navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    secret.select();
    try {
      await navigator.clipboard.writeText(secret.value);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C to copy";
    }
  });
}
