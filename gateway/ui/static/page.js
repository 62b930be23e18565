// Keys, the theme, and word of what happens. Everything but the live parts works without it.
"use strict";
(() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const told = find("#told");
  const away = find("#away");

  const words = JSON.parse(document.body.dataset.words ?? "{}");
  const t = (text) => words[text] ?? text;

  const say = (text) => {
    const note = document.createElement("p");
    note.className = "visually-hidden";
    note.textContent = text;
    told.replaceChildren(note);
  };

  // htmx runs once all is drawn: it takes a third of the time until then, and loads parts that come later anyway.
  addEventListener("load", () =>
    document.head.append(Object.assign(document.createElement("script"), { src: find("[data-later]").href })));

  // The theme.
  const isDark = () =>
    (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  find("[data-theme-switch]")?.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    document.cookie = `engramq_theme=${theme}; path=/ui; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new CustomEvent("engramq:theme"));
  });

  // Times are those of the reader's zone and written as the browser writes them; how long ago, in the page's language.
  // Without this they are in UTC.
  const language = document.documentElement.lang;
  const locale = navigator.language.startsWith(language) ? navigator.language : language;
  const ago = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  const units = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];
  const relative = (moment) => {
    const seconds = (moment - Date.now()) / 1000;
    const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
    return ago.format(Math.round(seconds / size), unit);
  };
  const localize = (within) =>
    within.querySelectorAll("time[datetime]").forEach((time) => {
      const isDay = time.hasAttribute("data-day");
      const moment = new Date(time.dateTime);
      const whole = moment.toLocaleString(locale, { dateStyle: "medium", timeStyle: "long" });
      if (time.hasAttribute("data-ago")) {
        time.textContent = relative(moment);
        time.title = whole;
      } else if (isDay) time.textContent = moment.toLocaleDateString(locale, { dateStyle: "medium" });
      else if (time.textContent.includes(":")) time.textContent = whole;
      // The day that somebody gave is that day in every zone.
      else time.textContent = moment.toLocaleDateString(locale, { dateStyle: "medium", timeZone: "UTC" });
    });
  const nameTicks = (within) =>
    within.querySelectorAll("[data-tick]").forEach((tick) => {
      const parts = { day: { day: "numeric", month: "short" }, month: { month: "short", year: "numeric" }, year: { year: "numeric" } };
      tick.textContent = new Date(tick.dataset.tick).toLocaleDateString(locale, { timeZone: "UTC", ...parts[tick.dataset.unit] });
    });
  localize(document);
  document.addEventListener("htmx:load", (event) => {
    localize(event.target);
    nameTicks(event.target);
  });

  // The keys' list.
  const keys = find("#keys");
  find("[data-help]")?.addEventListener("click", () => keys.showModal());

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(find(button.dataset.copy).textContent);
    button.textContent = t("Copied");
    say(t("Copied"));
  });

  // Live parts: a screen reader reads a change of the state once, and nothing while it stays.
  let state = find("[data-status]")?.dataset.status;
  document.addEventListener("htmx:afterSwap", () => {
    const now = find("[data-status]")?.dataset.status;
    if (now !== undefined && now !== state) say((state = now));
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt?.hasAttribute("data-live")) away.hidden = event.detail.xhr.status !== 0;
  });

  // Of a list of memories one row is the current one.
  const rows = () => [...document.querySelectorAll("[data-row]")];
  let at = -1;
  const stand = (index) => {
    const all = rows();
    if (!all.length) return;
    at = Math.max(0, Math.min(index, all.length - 1));
    all.forEach((row, number) => row.classList.toggle("current", number === at));
    all[at].focus({ preventScroll: true });
    all[at].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (!row) return;
    at = rows().indexOf(row);
    rows().forEach((one) => one.classList.toggle("current", one === row));
  });
  document.addEventListener("htmx:afterSettle", () => {
    const row = rows()[at];
    if (row?.dataset.said) {
      say(row.dataset.said);
      stand(at);
    }
  });
  // A key presses the button that names it: the current row's, else the page's.
  const press = (key) => {
    const named = `[data-key="${key}"]`;
    if (at < 0 && find(`[data-row] ${named}`)) stand(0);
    const row = rows()[at];
    const button = (row && find(named, row)) || [...document.querySelectorAll(named)].find((one) => !one.closest("[data-row]"));
    if (button) {
      button.click();
      if (button.matches("summary")) find("textarea, input:not([type=hidden])", button.parentElement)?.focus();
    } else if (row && find("[data-inbox]")) say(t("That cannot be done here."));
    return Boolean(button);
  };
  // A file that the server would refuse for its size is refused before it is sent.
  document.addEventListener("change", (event) => {
    const file = event.target.matches?.("input[data-most]") && event.target.files[0];
    if (!file) return;
    event.target.setCustomValidity(file.size > event.target.dataset.most - 65536 ? t("The file is too large for the page.") : "");
    event.target.reportValidity();
  });
  // How far a form's download is shows beside it. htmx would keep the browser from a submit that it hears of itself.
  document.addEventListener("submit", (event) => event.target.dispatchEvent(new Event("begun")));
  // How many memories are selected stands where an action on them begins.
  document.addEventListener("change", (event) => {
    const selected = find("[data-selected]");
    if (!selected || !event.target.matches?.("input[name=chosen]")) return;
    const number = document.querySelectorAll("input[name=chosen]:checked").length;
    selected.textContent = number ? `${t("Selected")} (${number})` : t("Selected");
    selected.parentElement.value = selected.value;
  });
  // Of a timeline one bar is a stop of Tab; the arrows go to the others.
  const bars = () => [...document.querySelectorAll("[data-bars] a")];
  const steps = { ArrowLeft: (all, at) => all[at - 1], ArrowRight: (all, at) => all[at + 1], Home: (all) => all[0], End: (all) => all.at(-1) };
  const stepped = (key, bar) => steps[key]?.(bars(), bars().indexOf(bar));
  const stop = (bar) => {
    bars().forEach((one) => (one.tabIndex = one === bar ? 0 : -1));
    bar.focus();
  };
  const go = (letter) => find(`.side nav a[data-go="${letter}"]`)?.click();

  let isGoing = false; // after g
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches?.("textarea")) {
      event.target.form?.requestSubmit(event.target.form.querySelector("button.main"));
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    if (event.target.closest?.("input:not([type=checkbox]), select, textarea, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key;
    const wasGoing = isGoing;
    isGoing = key === "g" && !wasGoing;
    if (isGoing) return;
    if (wasGoing) go(key);
    else if (key === "?") keys?.showModal();
    else if (key === "/") find("main [data-search]") ? find("main [data-search]").focus() : find("#search")?.showModal();
    else if (key === "j" || key === "k") stand(at + (key === "j" ? 1 : -1));
    else if (key === "t" && bars().length) stop(bars().find((bar) => bar.tabIndex === 0));
    else if (event.target.matches?.("[data-bars] a") && key in steps) stop(stepped(key, event.target) ?? event.target);
    else if (key === "x") find("input[type=checkbox]", rows()[at] ?? document.createElement("p"))?.click();
    else if (key === "Enter" && event.target.matches?.("[data-row]")) find("[data-open]", event.target)?.click();
    else if (!/^[a-z]$/.test(key) || !press(key)) return;
    event.preventDefault();
  });

  // On a phone the menu opens the navigation.
  find(".menu")?.addEventListener("toggle", (event) => find(".side").classList.toggle("open", event.target.open));
})();
