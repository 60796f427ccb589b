// The prices of a well-known model are filled in when it is chosen. Without this script, the server
// fills in those that were left empty.
document.addEventListener("DOMContentLoaded", () => {
  const list = document.getElementById("known-models");
  const model = document.querySelector('input[list="known-models"]');
  const note = model.form.querySelector("[data-as-of]");
  const fields = ["input", "output", "cached"].map((name) => [name, model.form.elements[name]]);
  model.addEventListener("input", () => {
    const known = [...list.options].find((option) => option.value === model.value);
    if (!known) return;
    for (const [name, field] of fields) field.value = known.dataset[name];
    note.querySelector("span").textContent = known.dataset.asOf;
    note.hidden = false;
  });
});
