// Choosing, moving about, keys.
let groups = [];
let at = -1; // place of the shown group in data.groups
let here = null; // {n, t}
let ranked = null;
let rank = -1;

function say(text) { $("state").textContent = text; }

function listTasks() {
  groups = chosen();
  ranked = null;
  rank = -1;
  const items = groups.map(({ group, place, shown }) => {
    const solved = shown.filter((n) => data.episodes[n].ok).length;
    const part = shown.length < group.episodes.length ? ` of ${group.episodes.length}` : "";
    const button = h("button", { type: "button", "data-place": place, onclick: () => show(place) },
      h("span", { className: "task", text: str(group.task) }),
      h("span", { className: "share" }, `${solved}/${shown.length}${part} ✓`),
      str(group.kind) ? h("span", { className: "kind", text: str(group.kind) }) : null);
    return h("li", {}, button);
  });
  $("list").replaceChildren(...items);
  $("list-title").textContent = `Tasks (${groups.length})`;
  const episodes = groups.flatMap((g) => g.shown);
  const solved = episodes.filter((n) => data.episodes[n].ok).length;
  say(episodes.length ? `${episodes.length} episodes of ${groups.length} tasks, ${solved} solved` : "No episode passes these filters.");
  show(groups.some((g) => g.place === at) ? at : groups.length ? groups[0].place : -1);
}

function show(place) {
  at = place;
  here = null;
  const found = groups.find((g) => g.place === place);
  for (const button of $("list").querySelectorAll("button")) {
    const current = Number(button.dataset.place) === place;
    if (current) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
  }
  if (!found) return $("episodes").replaceChildren(h("p", { className: "empty" }, "No episode passes these filters."));
  const { group, shown } = found;
  const facts = [str(group.env), str(group.kind), str(group.split), `task id ${group.id}`].filter(Boolean).join(" · ");
  const columns = shown.map(episodePart);
  const rows = Math.max(...shown.map((n) => data.episodes[n].o.length)) + 2; // a head, the turns, the last answer
  for (const column of columns) column.style.gridRow = `1 / span ${rows}`; // turn beside turn
  $("episodes").replaceChildren(
    h("h2", { text: str(group.task) }), h("p", { className: "note", text: facts }),
    h("div", { className: "columns", tabindex: "0", role: "group", "aria-label": "Episodes side by side" }, ...columns));
}

function go(n, t) {
  const group = data.groups.findIndex((g) => g.episodes.includes(n));
  if (group !== at) show(group);
  const element = $(turnId(n, t));
  if (!element) return;
  for (const old of document.querySelectorAll(".turn.here")) old.classList.remove("here");
  element.classList.add("here");
  here = { n, t };
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start", inline: "nearest" });
  history.replaceState(null, "", `#e${n}t${t}`);
}

function largest(step) {
  ranked = ranked || byCredit(groups);
  if (!ranked.length) return say(data.credit ? "No turn has an advantage other than 0." : "No turn has a reward.");
  rank = Math.min(ranked.length - 1, Math.max(0, rank + step));
  const { n, t, value } = ranked[rank];
  go(n, t);
  say(`${data.credit ? "Advantage" : "Reward"} ${signed(value)}: number ${rank + 1} of ${ranked.length}, episode ${data.episodes[n].index}, turn ${t}`);
}

async function toggleTokens() {
  showTokens = !showTokens;
  $("with-tokens").setAttribute("aria-pressed", String(showTokens));
  if (showTokens && tokens === undefined) tokens = await unpack("tokens");
  const place = here;
  show(at);
  if (place) go(place.n, place.t);
}

function moveGroup(step) {
  const place = groups.findIndex((g) => g.place === at) + step;
  if (groups[place]) {
    show(groups[place].place);
    const button = $("list").querySelector("[aria-current]");
    button.scrollIntoView({ block: "nearest" });
    say(`Task ${place + 1} of ${groups.length}: ${plain(str(groups[place].group.task))}`);
  }
}

function moveTurn(step) {
  const found = groups.find((g) => g.place === at);
  if (!found) return;
  const place = here || { n: found.shown[0], t: -1 };
  const t = Math.min(data.episodes[place.n].o.length - 1, Math.max(0, place.t + step));
  if (t >= 0) go(place.n, t);
}

function moveEpisode(step) {
  const found = groups.find((g) => g.place === at);
  if (!found) return;
  const place = found.shown.indexOf(here ? here.n : found.shown[0]) + (here ? step : 0);
  if (place < 0 || place >= found.shown.length) return;
  const n = found.shown[place];
  go(n, Math.min(here ? here.t : 0, Math.max(0, data.episodes[n].o.length - 1)));
}

const KEYS = [
  ["j", "next task", () => moveGroup(1)], ["k", "previous task", () => moveGroup(-1)],
  ["n", "next turn", () => moveTurn(1)], ["p", "previous turn", () => moveTurn(-1)],
  ["l", "next episode of the task", () => moveEpisode(1)], ["h", "previous episode of the task", () => moveEpisode(-1)],
  ["c", "largest credit, then the next largest", () => largest(1)], ["C", "back to the larger one", () => largest(-1)],
  ["t", "tokens on or off", toggleTokens], ["/", "search task names", () => $("by-text").focus()],
  ["?", "these keys", () => $("help").showModal()],
];

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !$("keys-on").checked || $("help").open) return;
  if (event.target.closest("input, select, textarea")) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (found) { event.preventDefault(); found[2](); }
}

function fill(id, key, first, options) {
  const select = $(id);
  select.replaceChildren(h("option", { value: "" }, first), ...options.map(([value, text]) => h("option", { value }, plain(text))));
  select.value = filter[key];
  select.addEventListener("change", () => { filter[key] = select.value; changed(); });
  if (!options.length) select.disabled = true;
}

function changed() {
  if (!data.served) return listTasks();
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value));
  location.search = query.toString();
}

function counts(keyOf) {
  const out = new Map();
  data.groups.forEach((group) => group.episodes.forEach((n) => {
    const key = keyOf(data.episodes[n], group);
    out.set(key, (out.get(key) || 0) + 1);
  }));
  return out;
}

function filters() {
  const known = data.served ? data.served.counts : null;
  const of = (name, keyOf) => [...(known ? known[name] : counts(keyOf))];
  if (data.served) Object.assign(filter, data.served.filter);
  const solved = new Map(of("success", (e) => (e.ok ? "yes" : "no")));
  fill("by-success", "success", "all", [["yes", `solved (${solved.get("yes") || 0})`], ["no", `not solved (${solved.get("no") || 0})`]]);
  fill("by-end", "end", "all", of("end", (e) => data.ends[e.end]).map(([end, count]) => [end, `${end} (${count})`]));
  const kinds = of("kind", (e, g) => str(g.kind)).sort().filter(([kind]) => kind);
  fill("by-kind", "kind", "all", kinds.map(([kind, count]) => ["=" + kind, `${kind} (${count})`]));
  fill("by-source", "source", "all", data.sources.map((name, place) => [String(place), name]));
  $("source-label").hidden = data.sources.length < 2;
  $("by-text").value = filter.text;
  $("by-text").addEventListener(data.served ? "change" : "input", () => { filter.text = $("by-text").value; changed(); });
  $("reset").addEventListener("click", () => {
    for (const key of Object.keys(filter)) filter[key] = "";
    for (const id of ["by-success", "by-end", "by-kind", "by-source", "by-text"]) $(id).value = "";
    changed();
  });
}

function legend() {
  const word = data.credit ? "advantage" : "sum of rewards";
  const edges = CUTS.map((edge) => String(+(edge * scale).toPrecision(3)));
  const parts = [["bin-n3", `below −${edges[2]}`], ["bin-n2", `−${edges[1]}`], ["bin-n1", `−${edges[0]}`], ["bin-0", "about 0"],
    ["bin-p1", `+${edges[0]}`], ["bin-p2", `+${edges[1]}`], ["bin-p3", `above +${edges[2]}`]];
  const label = data.credit ? `${word} (${data.credit.label})` : word;
  $("legend").append(h("span", { className: "name", text: label }), ...(scale ? parts.map(([name, text]) => h("span", { className: `chip ${name}` }, text)) : ["none other than 0"]));
}

function pager() {
  const served = data.served;
  if (!served || served.pages < 2) return;
  const link = (page, text) => {
    if (page < 1 || page > served.pages) return h("button", { type: "button", disabled: true }, text);
    const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value));
    query.set("page", page);
    return h("a", { href: `?${query}` }, text);
  };
  $("pager").append(link(served.page - 1, "previous page"), h("span", {}, `page ${served.page} of ${served.pages}`), link(served.page + 1, "next page"));
}

async function start() {
  data = await unpack("data");
  for (const episode of data.episodes) for (let t = 0; t < episode.o.length; t++) scale = Math.max(scale, Math.abs(worth(episode, t)));
  foreign($("title"), data.title);
  $("title").firstChild.remove();
  const total = data.served ? data.served.total : data.episodes.length;
  $("facts").textContent = `${total} episodes` + (data.served ? `, ${data.episodes.length} of them on this page` : "") + (data.credit ? ". * marks components that enter the returns." : ". No credit was computed: colours show rewards.");
  $("notes").append(...data.notes.map((text) => h("li", { text })));
  $("notes").hidden = !data.notes.length;
  if (matchMedia("(max-width: 50rem)").matches) $("list-box").open = false;
  filters();
  legend();
  pager();
  listTasks();
  $("largest").addEventListener("click", () => largest(1));
  $("with-tokens").addEventListener("click", toggleTokens);
  $("with-tokens").disabled = !$("tokens");
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("help-close").addEventListener("click", () => $("help").close());
  $("keys").append(...KEYS.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what))));
  document.addEventListener("keydown", onKey);
  const wanted = /^#e(\d+)t(\d+)$/.exec(location.hash);
  if (wanted && data.episodes[Number(wanted[1])]) go(Number(wanted[1]), Number(wanted[2]));
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => say(`The episodes could not be read: ${error.message}`));
