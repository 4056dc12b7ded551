// Runs before the page is drawn, so that it never flashes in the other colours; the only script that is no module.
"use strict";
try {
  const chosen = localStorage.getItem("ottla.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system's colours.
}
