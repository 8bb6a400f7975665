// Runs before the first paint, so that a page does not flash in the other theme.
(() => {
  document.documentElement.dataset.script = ""; // styles show what needs a script
  try {
    const chosen = localStorage.getItem("eventsched-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the theme is the system's.
  }
})();
