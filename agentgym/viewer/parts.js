// One episode as a column, one turn as a part of it.
const LONG = 900; // characters of a text that are shown at first

function textBlock(label, text, className) {
  const box = h("div", {});
  const pre = h("pre", { className, text: text.length > LONG ? text.slice(0, LONG) : text, dir: "ltr" });
  box.append(h("p", { className: "label" }, label), pre);
  if (text.length > LONG) {
    const more = h("button", { className: "more", type: "button", "aria-expanded": "false" }, `show all ${text.length} characters`);
    more.addEventListener("click", () => {
      const open = more.getAttribute("aria-expanded") === "false";
      pre.replaceChildren();
      foreign(pre, open ? text : text.slice(0, LONG));
      more.setAttribute("aria-expanded", String(open));
      more.textContent = open ? "show less" : `show all ${text.length} characters`;
    });
    box.append(more);
  }
  return box;
}

function bar(value) {
  const fill = h("i", { className: value < 0 ? "n" : "p" });
  fill.style.width = scale ? `${(50 * Math.min(1, Math.abs(value) / scale)).toFixed(1)}%` : "0";
  return h("span", { className: "bar", "aria-hidden": "true" }, fill);
}

const turnId = (n, t) => `e${n}t${t}`;

function turnPart(n, t) {
  const episode = data.episodes[n];
  const value = worth(episode, t);
  const word = data.credit ? "advantage" : "reward";
  const head = h("h4", {}, `Turn ${t}`, h("span", { className: "which" }, `of episode ${episode.index}`));
  if (episode.v || !data.credit) head.append(h("span", { className: `chip ${bin(value)}` }, `${word} ${signed(value)}`), bar(value));
  if (!(episode.f[t] & 1)) head.append(h("span", { className: "tag" }, "✗ invalid format"));
  if (!(episode.f[t] & 2)) head.append(h("span", { className: "tag" }, "⊘ refused"));
  const finish = str(episode.e[t]);
  if (finish && finish !== "stop") head.append(h("span", { className: "tag", text: `ended by ${finish}` }));
  for (const name of episode.m[t]) head.append(h("span", { className: "tag reached", text: `★ ${str(name)}` }));
  const response = str(episode.r[t]);
  const action = episode.a[t] < 0 ? null : str(episode.a[t]);
  const article = h("article", { className: "turn", id: turnId(n, t), tabindex: "-1", "aria-label": `Turn ${t} of episode ${episode.index}` }, head);
  article.append(textBlock("observation", str(episode.o[t]), ""));
  if (response !== action) article.append(textBlock("response", response, "said"));
  article.append(textBlock(response === action ? "response and action" : "action", action === null ? "(none found)" : action, "did"));
  const rewards = h("div", { className: "rewards", "aria-label": "reward components" });
  for (const [name, column] of Object.entries(episode.w)) {
    if (column[t] === null || column[t] === undefined) continue;
    const paid = data.credit && data.credit.paid.includes(name) ? "*" : "";
    rewards.append(h("span", {}, h("span", { className: "name", text: name + paid }), ` ${number(column[t])}`));
  }
  if (rewards.childNodes.length) article.append(h("p", { className: "label" }, "reward components"), rewards);
  if (showTokens) article.append(tokenList(n, t));
  return article;
}

function tokenList(n, t) {
  const box = h("div", { className: "token-box" });
  const columns = tokens && tokens.episodes[n];
  const count = columns ? columns.n[t] : 0;
  if (!count) return box.append(h("p", { className: "label" }, "no tokens recorded")), box;
  const from = sum(columns.n.slice(0, t));
  const list = h("ol", { className: "tokens", "aria-label": "sampled tokens with log-probability" });
  for (let i = from; i < from + count; i++) {
    const place = columns.i[i];
    const log = columns.l[i] / 10000;
    const level = log > -0.105 ? 0 : log > -0.693 ? 1 : log > -2.303 ? 2 : 3; // probability 0.9, 0.5, 0.1
    const item = h("li", { className: level ? `bin-n${level}` : "bin-0", title: `id ${tokens.ids[place]}, probability ${number(Math.exp(log))}` });
    const text = tokens.texts ? tokens.texts[place] : `#${tokens.ids[place]}`;
    foreign(item, text.replace(/\n/g, "⏎").replace(/^ +| +$/g, (s) => "␣".repeat(s.length)));
    item.append(h("small", {}, log.toFixed(log < -10 ? 0 : 2).replace("-", "−")));
    list.append(item);
  }
  box.append(h("p", { className: "label" }, `${count} sampled tokens, log-probability below each`), list);
  return box;
}

function episodePart(n) {
  const episode = data.episodes[n];
  const turns = episode.o.length;
  const title = h("h3", {}, `Episode ${episode.index}`);
  if (data.sources.length > 1) title.append(h("span", { className: "note", text: data.sources[episode.src] }));
  title.append(h("span", { className: `badge ${episode.ok ? "ok" : "no"}` }, episode.ok ? "✓ solved" : "✗ not solved"));
  const facts = h("dl", {});
  const fact = (name, text) => text && facts.append(h("dt", {}, name), h("dd", { text }));
  fact("ended by", data.ends[episode.end]);
  fact("outcome", number(episode.out));
  fact("turns", String(turns));
  fact("tokens", `${sum(episode.s)} sampled, ${sum(episode.p)} in prompts`);
  fact("policy", str(episode.policy));
  fact("place", `${episode.place} in its store`);
  fact("seed", episode.seed);
  if (episode.error >= 0) fact("error", str(episode.error));
  if (episode.names.length) {
    const reached = new Set(episode.m.flat());
    fact("milestones", `${reached.size} of ${episode.names.length}: ` + episode.names.map((m) => (reached.has(m) ? "★ " : "☆ ") + str(m)).join(", "));
  }
  const strip = h("ol", { className: "strip", "aria-label": "turns" });
  for (let t = 0; t < turns; t++) {
    const value = worth(episode, t);
    const name = `turn ${t}, ${data.credit ? "advantage" : "reward"} ${signed(value)}`;
    const sign = value > 0 ? "+" : value < 0 ? "−" : "";
    strip.append(h("li", {}, h("button", { type: "button", className: bin(value), "aria-label": name, title: name, onclick: () => go(n, t) }, `${t}${Math.abs(value) > CUTS[0] * scale ? sign : ""}`)));
  }
  const column = h("section", { className: "episode", "aria-label": `Episode ${episode.index}, ${episode.ok ? "solved" : "not solved"}` }, h("div", {}, title, facts, strip));
  for (let t = 0; t < turns; t++) column.append(turnPart(n, t));
  if (episode.last >= 0 && str(episode.last)) column.append(textBlock("what the environment answered last", str(episode.last), ""));
  return column;
}
