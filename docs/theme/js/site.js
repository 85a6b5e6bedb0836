// Menu, colours, copying, and search. Each page works without it.
"use strict";

const base = new URL(document.currentScript.dataset.base.replace(/\/?$/, "/"), location.href);
const root = document.documentElement;

// Colours

const colours = document.querySelector(".colours");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.colours ? root.dataset.colours === "dark" : prefersDark.matches);

function showColours() {
  const other = isDark() ? "Use light colours" : "Use dark colours";
  colours.setAttribute("aria-label", other);
  colours.title = other;
}

colours.addEventListener("click", () => {
  root.dataset.colours = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("colours", root.dataset.colours);
  } catch (refused) {
    // It holds for this page, then.
  }
  showColours();
});
prefersDark.addEventListener("change", showColours);
showColours();

// Menu of a narrow screen

const menu = document.querySelector(".menu");
const nav = document.getElementById("nav");

function openMenu(open) {
  menu.setAttribute("aria-expanded", String(open));
  nav.classList.toggle("open", open);
}

// The page that is shown is seen in a long list too.
const current = nav.querySelector("[aria-current]");
if (current) nav.scrollTop = current.offsetTop - nav.clientHeight / 2;

menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));

// Copying: of a session in a terminal or in Python, what was typed

function typed(block) {
  const text = block.textContent;
  if (!block.querySelector(".gp")) return text;
  const prompt = text.startsWith(">>> ") ? /^(>>>|\.\.\.) ?/ : /^\$ /;
  const lines = text.split("\n").filter((line) => prompt.test(line));
  return lines.map((line) => line.replace(prompt, "")).join("\n") + "\n";
}

for (const block of document.querySelectorAll("main pre")) {
  block.tabIndex = 0; // so that it can be scrolled from the keyboard
  const holder = document.createElement("div");
  holder.className = "block";
  block.replaceWith(holder);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typed(block));
      button.textContent = "Copied";
    } catch (refused) {
      button.textContent = "Not allowed";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  holder.append(block, button);
}

for (const table of document.querySelectorAll("main table")) {
  const holder = document.createElement("div");
  holder.className = "wide";
  holder.tabIndex = 0;
  table.replaceWith(holder);
  holder.append(table);
}

// Search

const query = document.getElementById("query");
const results = document.getElementById("results");
let worker;
let ready = false;

function ask() {
  // What the index takes for an operator is left out.
  const words = query.value.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || [];
  if (words.join("").length < 2) {
    show(null);
    return;
  }
  if (!worker) {
    worker = new Worker(new URL("search/worker.js", base));
    worker.onmessage = (event) => {
      if (event.data.allowSearch) {
        ready = true;
        ask();
      } else if (event.data.results) {
        show(event.data.results);
      }
    };
    worker.postMessage({ init: true });
  } else if (ready) {
    worker.postMessage({ query: words.map((word) => `title:${word}^30 title:${word}*^10 ${word}^4 ${word}*`).join(" ") });
  }
}

function show(found) {
  results.replaceChildren();
  results.hidden = !found;
  if (!found) return;
  if (!found.length) {
    const nothing = document.createElement("p");
    nothing.textContent = "Nothing was found.";
    results.append(nothing);
  }
  for (const each of ranked(found).slice(0, 12)) {
    const link = document.createElement("a");
    link.href = new URL(each.location, base);
    const title = document.createElement("strong");
    title.textContent = [pageOf(link), plain(each.title)].filter((name, n, all) => name && name !== all[n - 1]).join(" › ");
    const text = document.createElement("span");
    text.textContent = around(plain(each.text));
    link.append(title, text);
    results.append(link);
  }
}

// Guides first, then what is made from the code, for which some places are left. What changed once is not what somebody
// looks for who needs help.
function ranked(found) {
  const rank = ({ location }) => (location.startsWith("changelog") ? 2 : location.startsWith("reference-") ? 1 : 0);
  const [guides, references, old] = [0, 1, 2].map((n) => found.filter((each) => rank(each) === n));
  return [...guides.slice(0, 8), ...references.slice(0, 4), ...guides.slice(8), ...references.slice(4), ...old];
}

function pageOf(link) {
  const page = [...nav.querySelectorAll("a")].find((other) => other.pathname === link.pathname);
  return page ? page.textContent : "";
}

function plain(html) {
  return new DOMParser().parseFromString(html, "text/html").body.textContent.replace(/\s+/g, " ").trim();
}

function around(text) {
  const word = query.value.trim().split(/\s+/)[0].toLowerCase();
  const start = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (start ? "…" : "") + text.slice(start, start + 140) + (start + 140 < text.length ? "…" : "");
}

query.addEventListener("input", ask);
query.form.addEventListener("submit", (event) => {
  event.preventDefault();
  const first = results.querySelector("a");
  if (first) location.href = first.href;
});

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    query.focus();
  } else if (event.key === "Escape") {
    show(null);
    openMenu(false);
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !results.hidden) {
    const links = [query, ...results.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    links[(at + (event.key === "ArrowDown" ? 1 : links.length - 1)) % links.length].focus();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) show(null);
});
