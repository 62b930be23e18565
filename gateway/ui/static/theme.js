// Light or dark as somebody has chosen, before anything is drawn; without a choice as the system has it.
"use strict";
(() => {
  const chosen = localStorage.getItem("engramq-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
