// Runs before the first paint, so that the page never flashes in the other colours; the only script that is no module.
"use strict";
try {
  const chosen = localStorage.getItem("ottla.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser without storage follows the colours of the system.
}
