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

// Menu of a narrow screen: a link to the pages, which opens and closes them where there are scripts

const menu = document.querySelector(".menu");
const nav = document.getElementById("nav");

function openMenu(open) {
  menu.setAttribute("aria-expanded", String(open));
  nav.classList.toggle("open", open);
}

menu.setAttribute("role", "button");
openMenu(false);

// The page that is shown is seen in a long list too.
const current = nav.querySelector("[aria-current]");
if (current) nav.scrollTop = current.offsetTop - nav.clientHeight / 2;

menu.addEventListener("click", (event) => {
  event.preventDefault();
  openMenu(menu.getAttribute("aria-expanded") !== "true");
});

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

// Search, in an index that is loaded when somebody begins to type

const query = document.getElementById("query");
const results = document.getElementById("results");
let index;
let loading;

const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || [];

async function load() {
  const answer = await fetch(new URL("search.json", base));
  const read = await answer.json();
  read.vocabulary = new Set();
  read.sections = read.sections.map(([page, anchor, title, about, text]) => {
    const section = { page: read.pages[page], anchor, title, about, titled: words(title), said: new Set(words(text)) };
    for (const word of [...section.titled, ...section.said]) read.vocabulary.add(word);
    return section;
  });
  for (const word of Object.keys(read.synonyms)) read.vocabulary.add(word);
  index = read;
}

// Whether one letter is missing, too many, another one, or in the place of its neighbour.
function isNear(one, other) {
  if (Math.abs(one.length - other.length) > 1) return false;
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const [a, b] = [one.slice(at), other.slice(at)];
  return a.slice(1) === b.slice(1) || a.slice(1) === b || a === b.slice(1) ||
    (a[0] === b[1] && a[1] === b[0] && a.slice(2) === b.slice(2));
}

// What a word may stand for, each with what it counts.
function meant(word) {
  const all = new Map([[word, 1]]);
  const add = (other, counts) => all.set(other, Math.max(counts, all.get(other) || 0));
  const known = [...index.vocabulary];
  let spelled = [word];
  if (!known.some((each) => each.startsWith(word)) && word.length > 3) {
    spelled = known.filter((each) => isNear(word, each));
    for (const each of spelled) add(each, 0.7);
  }
  for (const each of spelled) for (const other of index.synonyms[each] || []) add(other, 0.5);
  return all;
}

function counts(meanings, there) {
  let most = 0;
  for (const [word, weight] of meanings) {
    const short = word.length > 4 ? word.replace(/(es|s|ing|ed)$/, "") : word;
    for (const each of there) {
      const fits = each === word ? 1 : each.startsWith(word) ? 0.7 : word.length > 4 && each.startsWith(short) ? 0.6 : 0;
      most = Math.max(most, fits * weight);
    }
  }
  return most;
}

function find(asked) {
  const meanings = asked.map(meant);
  const phrase = asked.join(" ");
  const found = [];
  // Under the name of an error stands first what helps with it.
  const helps = asked.map((each) => index.named[each] || []);
  const places = index.sections.map((section) => meanings.map((each, n) => {
    const [title, page, said] = [section.titled, words(section.page[1]), section.said].map((there) => counts(each, there));
    const led = helps[n].includes(section.page[0] + (section.anchor && "#" + section.anchor));
    return 60 * led + 30 * title + (section.anchor ? 3 : 6) * page + 4 * said;
  }));
  // A word that is everywhere says little.
  const rare = meanings.map((_, n) => Math.log(1 + places.length / (1 + places.filter((each) => each[n]).length)));
  for (const [number, section] of index.sections.entries()) {
    const met = places[number].filter(Boolean).length;
    if (!met) continue;
    let score = places[number].reduce((sum, each, n) => sum + each * rare[n], 0);
    if (section.titled.join(" ").includes(phrase) && asked.length > 1) score += 60;
    // Of a heading, the words that were not asked for count against it.
    score -= Math.max(0, section.titled.length - asked.length) * 1.5;
    found.push({ ...section, score: score * section.page[2] * (met / asked.length) ** 2 });
  }
  return found.sort((a, b) => b.score - a.score);
}

async function ask() {
  const asked = words(query.value);
  if (asked.join("").length < 2) return show(null);
  try {
    await (loading = loading || load());
  } catch (refused) {
    loading = undefined;
    return show([]);
  }
  // What was typed meanwhile has its own answer.
  if (asked.join(" ") === words(query.value).join(" ")) show(find(asked));
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
  for (const { page, anchor, title, about } of found.slice(0, 12)) {
    const link = document.createElement("a");
    link.href = new URL(page[0] + (anchor && `#${anchor}`), base);
    const name = document.createElement("strong");
    name.textContent = page[1] === title || !anchor ? page[1] : `${page[1]} › ${title}`;
    const text = document.createElement("span");
    text.textContent = about;
    link.append(name, text);
    results.append(link);
  }
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
