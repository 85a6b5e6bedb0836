// Before anything is drawn, so that a page does not flash in the other colours.
(function () {
  document.documentElement.className = "scripts";
  try {
    var chosen = localStorage.getItem("colours");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.colours = chosen;
  } catch (refused) {
    // A browser that keeps nothing for this site: the system's colours.
  }
})();
