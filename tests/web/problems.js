() => {
  const found = [];
  const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length && e.labels[0].textContent.trim());
  for (const e of document.querySelectorAll("button, a, select, input, [role=region], [role=group], [role=img], nav, dialog"))
    if (!named(e) && !e.getAttribute("aria-labelledby")) found.push("no name: " + e.outerHTML.slice(0, 120));
  for (const t of document.querySelectorAll("table"))
    if (!t.querySelector("th[scope]") && !t.closest("dialog")) found.push("no heads: " + t.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id is there twice");
  if (document.documentElement.lang !== "en") found.push("no language");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) found.push("not one main");
  if (document.querySelector("img, iframe, object, embed, link, base, form")) found.push("an element that no page of ours has");
  for (const e of document.querySelectorAll("*")) for (const a of e.attributes)
    if (a.name.startsWith("on")) found.push("a handler: " + a.name);
  return found;
}
