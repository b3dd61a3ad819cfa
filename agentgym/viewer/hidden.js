// Foreign text: shown by text nodes only, its control, direction and invisible characters as marks.
// The same set as HIDDEN_RANGES in web/text.py.
const HIDDEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5" +
  "\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff9-\\ufffb" +
  "\\u{d800}-\\u{dfff}\\u{e0000}-\\u{e0fff}]", "gu");

function codeOf(character) {
  const code = character.codePointAt(0);
  const hex = code.toString(16);
  if (code > 0xffff) return "\\U" + hex.padStart(8, "0");
  return code < 256 ? "\\x" + hex.padStart(2, "0") : "\\u" + hex.padStart(4, "0");
}

const plain = (text) => text.replace(HIDDEN, codeOf);

// An element with properties and children; strings become text nodes, never markup.
function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else if (name === "className") element.className = value;
    else if (name === "text") foreign(element, value);
    else element.setAttribute(name, value === true ? "" : plain(String(value)));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Put foreign text into an element, hidden characters as marked spans.
function foreign(element, text) {
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) element.append(text.slice(from, match.index));
    const mark = document.createElement("span");
    mark.className = "ctl";
    mark.textContent = codeOf(match[0]);
    element.append(mark);
    from = match.index + match[0].length;
  }
  element.append(text.slice(from));
  return element;
}
