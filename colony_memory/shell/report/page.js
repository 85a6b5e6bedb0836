// Draws the page from the data that stands behind it. Whatever comes from the vault is put in as text.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const FEW = 25;

  // Text without what would turn it around or hide it.
  const plain = (text) =>
    String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, (c) => (c === "\n" || c === "\t" ? c : `\\u{${c.codePointAt(0).toString(16)}}`));
  function make(tag, attributes = {}, ...inside) {
    const svg = ["svg", "circle", "polyline", "rect", "text", "line", "title"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...inside.filter((each) => each !== null && each !== undefined).map((each) => (each.nodeType ? each : plain(each))));
    return element;
  }
  const size = (bytes) => {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let n = 0;
    while (bytes >= 1000 && n < units.length - 1) [bytes, n] = [bytes / 1000, n + 1];
    return `${n && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[n]}`;
  };
  const time = (stamp) => stamp.replace("T", " ").replace(/:\d\dZ$/, " UTC");
  const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
  const table = (head, rows) =>
    make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...rows)));
  const cell = (text, kind) => make("td", { class: kind }, text);

  // Rows of which there may be thousands: some, and the rest when asked for.
  function some(rows, draw) {
    const holder = make("div");
    const show = (number) => {
      holder.replaceChildren(draw(rows.slice(0, number)));
      if (rows.length > number) holder.append(make("button", { type: "button", onclick: () => show(number * 10) }, `Show more of ${rows.length.toLocaleString("en")}`));
    };
    show(FEW);
    return holder;
  }

  function verdict() {
    const status = data.status;
    const kind = { protected: "good", saved: "good", ahead: "warn", "at risk": "warn", "not protected": "bad" }[status.state];
    const newest = status.newest;
    at("verdict").append(
      make("h1", { class: kind }, status.state[0].toUpperCase() + status.state.slice(1)),
      make("p", {}, newest ? `The newest good snapshot is ${newest.snapshot_id} of label ${newest.label}, made ${time(newest.created_at)}.` : "There is no good snapshot."),
      make("p", { class: "dim" }, `Vault ${status.vault}, looked at ${time(data.made)}.`),
    );
    for (const problem of status.problems)
      at("problems").append(
        make("div", { class: "problem" },
          make("p", {}, problem.label ? `Label ${problem.label}: ${problem.what}` : problem.what),
          problem.mend ? make("p", {}, "Mend it: ", make("code", {}, problem.mend)) : null,
          problem.fallback ? make("p", {}, "Restore meanwhile: ", make("code", {}, problem.fallback)) : null),
      );
  }

  function room() {
    const { quota_bytes: quota, used_bytes: used, available_bytes: free } = data.status;
    at("room").append(make("h2", {}, "Room"));
    if (quota) {
      const full = Math.min(100, (100 * used) / quota);
      const fill = make("i");
      fill.style.width = `${full}%`;
      at("room").append(make("div", { class: "bar", role: "img", "aria-label": `${full.toFixed(0)} % used` }, fill));
    }
    at("room").append(make("p", {}, `${size(used)} used` + (quota ? ` of ${size(quota)}` : "") + (free === null ? "" : `, ${size(free)} free`) + "."));
    // In the words of the status.
    const told = (title, text) => make("p", {}, make("span", { class: "dim" }, `${title} `), text);
    if (data.next.length) at("room").append(some(data.next, (rows) => make("div", {}, ...rows.map((text) => told("next", text)))));
  }

  const colourOf = (snapshot) =>
    snapshot.check && !snapshot.check.good ? "var(--bad)" : snapshot.latest ? "var(--good)" : "var(--mark)";

  // Sizes over time: a point for each snapshot.
  function line(snapshots) {
    const [width, height, left, bottom] = [1100, 220, 70, 30];
    const times = snapshots.map((each) => Date.parse(each.created_at)).filter(Number.isFinite);
    const [first, last] = times.reduce(([a, b], t) => [Math.min(a, t), Math.max(b, t)], [Infinity, -Infinity]);
    const most = snapshots.reduce((a, each) => Math.max(a, each.byte_size), 1);
    const x = (each) => left + ((width - left - 20) * (Date.parse(each.created_at) - first)) / (last - first || 1);
    const y = (each) => height - bottom - ((height - bottom - 15) * each.byte_size) / most;
    const drawn = snapshots.filter((each) => Number.isFinite(Date.parse(each.created_at))).reverse();
    return make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Bytes of the memory over time" },
      make("line", { x1: left, y1: height - bottom, x2: width - 20, y2: height - bottom, stroke: "var(--edge)" }),
      make("text", { x: left - 8, y: 20, "text-anchor": "end" }, size(most)),
      make("text", { x: left - 8, y: height - bottom, "text-anchor": "end" }, "0"),
      make("text", { x: left, y: height - 8 }, time(drawn[0]?.created_at ?? "")),
      make("text", { x: width - 20, y: height - 8, "text-anchor": "end" }, time(drawn.at(-1)?.created_at ?? "")),
      make("polyline", { points: drawn.map((each) => `${x(each).toFixed(1)},${y(each).toFixed(1)}`).join(" "), fill: "none", stroke: "var(--edge)" }),
      ...drawn.map((each) => make("circle", { cx: x(each).toFixed(1), cy: y(each).toFixed(1), r: drawn.length > 500 ? 2 : 4, fill: colourOf(each) }, make("title", {}, `${each.snapshot_id}\n${time(each.created_at)}, ${size(each.byte_size)}`))));
  }

  function changesOf(each) {
    if (!each.changes) return each.unread ? "not read" : "";
    const [added, changed, removed] = each.changes;
    return [added && `+${added}`, changed && `~${changed}`, removed && `-${removed}`].filter(Boolean).join(" ") || "none";
  }

  function factsOf(check) {
    if (!check) return make("td", { class: "dim" }, "not read");
    // Of a good one, what was not asked for says nothing, but that nobody signed it.
    if (check.good) return make("td", { class: "good" }, check.signature === "missing" ? "good, not signed" : "good");
    const odd = Object.entries(check).filter(([name, fact]) => !["good", "problem"].includes(name) && fact !== "ok").map(([name, fact]) => `${name} ${fact}`);
    return make("td", { class: "text bad" }, [`bad: ${odd.join(", ")}`, check.problem].filter(Boolean).join("; "));
  }

  function remarksOf(each) {
    const said = [each.latest && "latest", each.shrank && "kept, as much less followed", each.pinned && "pinned", each.encrypted && "encrypted", each.format.endsWith("/2") && "format 2", ...each.tags.map((tag) => `tag ${tag}`), each.note, ...each.incomplete.map((why) => `left out: ${why}`)];
    return said.filter(Boolean).join("; ");
  }

  const snapshotTable = (rows) =>
    table(["snapshot", "made", "integrity", "changes", "size", "stored", "documents", "remarks", "signed by"],
      rows.map((each) => make("tr", {},
        make("td", { class: "id" }, each.snapshot_id), cell(time(each.created_at)), factsOf(each.check), cell(changesOf(each)), cell(each.encrypted && !each.byte_size ? "?" : size(each.byte_size), "number"), cell(size(each.stored_bytes), "number"), cell(each.documents === null ? "?" : each.documents.toLocaleString("en"), "number"),
        cell(remarksOf(each), "text"), make("td", { class: "text id" }, each.issuer || "-"))));

  function patchOf(change) {
    if (change.patch === null) return make("p", { class: "dim" }, "The difference is not in this page.");
    const kinds = { "+": "plus", "-": "minus", "@": "at" };
    return make("pre", { tabindex: 0 }, ...change.patch.split("\n").map((text) => make("span", { class: kinds[text[0]] }, `${text}\n`)));
  }

  function documentsOf(label) {
    if (!label.documents.length) return null;
    const shown = make("div", { "aria-live": "polite" }, make("p", { class: "dim" }, "Choose a document to see what became of it, newest first."));
    const open = (entry) => {
      const draw = (changes) => make("div", {}, ...changes.map((change) => make("details", {}, make("summary", {}, `${time(change.made)} ${change.kind}` + (change.lines ? `, +${change.lines[0]} -${change.lines[1]} lines` : "") + `, ${size(change.size)}, `, make("span", { class: "id" }, change.id)), patchOf(change))));
      shown.replaceChildren(make("h3", {}, entry.name), make("p", {}, count(entry.changes.length, "change")), some(entry.changes, draw));
    };
    const list = make("div");
    const filter = make("input", { type: "search", placeholder: "Find a document", "aria-label": "Find a document" });
    const show = () => {
      const found = label.documents.filter((entry) => entry.name.toLowerCase().includes(filter.value.toLowerCase()));
      list.replaceChildren(some(found, (rows) => make("div", { class: "names" }, ...rows.map((entry) => make("button", { type: "button", onclick: () => open(entry) }, entry.name, make("span", { class: "dim" }, ` ${entry.size ? size(entry.size) : "gone"}, ${count(entry.changes.length, "change")}`))))));
    };
    filter.addEventListener("input", show);
    show();
    return make("section", {}, make("h2", {}, "Documents"), make("div", { class: "pair" }, make("div", {}, filter, list), shown));
  }

  function draw(label) {
    for (const button of at("labels").children) button.setAttribute("aria-pressed", String(button.dataset.label === label.label));
    const snapshots = label.snapshots;
    at("label").replaceChildren(
      make("h2", {}, `Label ${label.label}`),
      label.problem ? make("p", { class: "bad" }, label.problem) : make("p", {}, `${count(snapshots.length, "restore point")}.`),
      snapshots.length > 1 ? line(snapshots) : make("span"),
      snapshots.length ? some(snapshots, snapshotTable) : make("p", { class: "dim" }, "No snapshot is listed."),
      label.others.length ? make("section", {}, make("h2", {}, "Not listed"), some(label.others, (rows) => table(["snapshot", "integrity"], rows.map((each) => make("tr", {}, make("td", { class: "id" }, each.id), factsOf(each.check)))))) : make("span"),
      documentsOf(label) || make("span"),
    );
  }

  verdict();
  room();
  for (const label of data.labels) {
    const button = make("button", { type: "button", onclick: () => draw(label) }, `${label.label} (${label.snapshots.length})`);
    button.dataset.label = label.label;
    at("labels").append(button);
  }
  if (data.labels.length) draw(data.labels.find((label) => label.label === (data.status.newest || {}).label) || data.labels[0]);
  else at("label").append(make("p", {}, "Nothing is saved in this vault yet."));
});
