// The page's data, and which of it the filters let through.
async function unpack(id) {
  const block = document.getElementById(id);
  if (!block) return null;
  const text = atob(block.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

let data;
let tokens; // undefined: not asked for yet; null: the episodes recorded none
let showTokens = false;
const $ = (id) => document.getElementById(id);
const str = (place) => (place < 0 ? "" : data.strings[place]);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const number = (value) => (typeof value === "number" ? String(+value.toPrecision(4)) : String(value ?? "-"));
const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + number(Math.abs(value));

// Advantages, or the sum of the paid-out rewards where no credit was computed.
function worth(episode, turn) {
  if (data.credit) return episode.v && typeof episode.v[turn] === "number" ? episode.v[turn] : 0;
  return sum(Object.values(episode.w).map((column) => (typeof column[turn] === "number" ? column[turn] : 0)));
}

const CUTS = [0.05, 0.33, 0.66]; // of the largest absolute value: where the colours change
function bin(value) {
  const part = scale ? Math.abs(value) / scale : 0;
  const level = CUTS.filter((edge) => part > edge).length;
  return level ? "bin-" + (value > 0 ? "p" : "n") + level : "bin-0";
}
let scale = 0;

const filter = { success: "", end: "", kind: "", source: "", text: "" };
function passes(episode, group) {
  if (data.served) return true; // the server has filtered
  if (filter.success && (filter.success === "yes") !== !!episode.ok) return false;
  if (filter.end && data.ends[episode.end] !== filter.end) return false;
  if (filter.kind && "=" + str(group.kind) !== filter.kind) return false;
  if (filter.source && String(episode.src) !== filter.source) return false;
  return !filter.text || str(group.task).toLowerCase().includes(filter.text.toLowerCase());
}

// Groups with the episodes that pass, in order.
function chosen() {
  const out = [];
  data.groups.forEach((group, place) => {
    const shown = group.episodes.filter((n) => passes(data.episodes[n], group));
    if (shown.length) out.push({ group, place, shown });
  });
  return out;
}

// All turns that pass, by the size of what credit gave them.
function byCredit(groups) {
  const out = [];
  for (const { place, shown } of groups) {
    for (const n of shown) {
      const episode = data.episodes[n];
      for (let t = 0; t < episode.o.length; t++) {
        const value = worth(episode, t);
        if (value) out.push({ place, n, t, value });
      }
    }
  }
  return out.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}
