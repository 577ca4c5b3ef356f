// What all pages share: live state, search as one types, keys, times. Every page works without it.
"use strict";

const find = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

// Times: from dates to how long ago.
const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "days", 86400]];
function ago(at) {
  const seconds = Math.max(0, Math.round((Date.now() - at) / 1000));
  const [, unit, size] = STEPS.find(([below]) => seconds < below);
  const number = Math.floor(seconds / size);
  return `${number} ${unit === "days" && number === 1 ? "day" : unit} ago`;
}
function tellTimes() {
  for (const time of all("time[data-at]")) {
    const text = ago(Number(time.dataset.at));
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(tellTimes, 1000);
tellTimes();

// Live state. A page that nobody sees lets go of its stream: a browser has few connections for one host.
const live = find("[data-stream]");
if (live) {
  let stream = null;
  const listen = () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else if (!stream) {
      stream = new EventSource(live.dataset.stream);
      const looked = find(".looked"), silent = find("span", looked);
      const lookedAt = (at) => {
        find("time", looked).dataset.at = at;
        looked.hidden = false;
        silent.hidden = true;
        tellTimes();
      };
      stream.addEventListener("looked", (event) => lookedAt(event.data));
      stream.onerror = () => { silent.hidden = false; };
      stream.onmessage = (event) => {
        live.innerHTML = event.data; // made by the server, which escapes
        lookedAt(event.lastEventId);
      };
    }
  };
  document.addEventListener("visibilitychange", listen);
  window.addEventListener("pagehide", () => { stream?.close(); stream = null; });
  listen();
}

// Search as one types. Half-composed syllables search nothing.
const search = find("form[data-search]");
if (search) {
  const hits = find("#hits");
  let timer = 0;
  let asking = null;
  let last = new URLSearchParams(new FormData(search)).toString();
  const ask = async (asked) => {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    hits.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${search.dataset.search}?${asked}`, { signal });
      const html = await answer.text();
      if (signal.aborted) return;
      hits.innerHTML = html;
      hits.removeAttribute("aria-busy");
      history.replaceState(null, "", `/search?${asked}`);
      if (answer.status === 503) timer = setTimeout(() => ask(asked), 1000);
    } catch (error) {
      if (!signal.aborted) {
        hits.textContent = "wiki-sync does not answer: it may have been ended.";
        hits.removeAttribute("aria-busy");
      }
    }
  };
  const typed = (event) => {
    if (event.isComposing) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      const asked = new URLSearchParams(new FormData(search)).toString();
      if (asked !== last) {
        last = asked;
        ask(asked);
      }
    }, 180);
  };
  search.addEventListener("input", typed);
  search.addEventListener("compositionend", typed);
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    find("a.hit", hits)?.focus();
  });
  const step = (event) => {
    const links = [find("#q"), ...all("a.hit", hits)];
    const at = links.indexOf(document.activeElement);
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way || at < 0 || event.isComposing) return;
    links[Math.max(0, Math.min(links.length - 1, at + way))].focus();
    event.preventDefault();
  };
  search.addEventListener("keydown", step);
  hits.addEventListener("keydown", step);
  const box = find("#q");
  box.setSelectionRange(box.value.length, box.value.length);
}

// Keys.
const help = find("#keys");
const helper = find("[data-keys]");
helper.hidden = false;
helper.addEventListener("click", () => help.showModal());
const PLACES = { o: "/", s: "/search", g: "/graph", d: "/dead" };
let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const at = event.target;
  if (at instanceof HTMLElement && at.matches("input, select, textarea")) {
    if (event.key === "Escape") at.blur();
    return;
  }
  const was = isGoing;
  isGoing = false;
  if (was && PLACES[event.key]) {
    location.assign(PLACES[event.key]);
  } else if (event.key === "g") {
    isGoing = true;
    setTimeout(() => { isGoing = false; }, 1500);
  } else if (event.key === "/") {
    const box = find("#q") ?? find("#find");
    box?.focus();
    box?.select();
  } else if (event.key === "?") {
    help.open ? help.close() : help.showModal();
  } else {
    return;
  }
  event.preventDefault();
});
