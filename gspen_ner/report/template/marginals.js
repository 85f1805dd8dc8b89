// Label probabilities of a sentence before and after the global term, as stacked bars.

const LIKELY = 0.98; // tokens that are outside with at least this probability are hidden at first

/** Decode what sentences.py packed: for each token, pairs of a label's index and its probability. */
function unpack(text, tokens) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const numbers = new DataView(bytes.buffer);
  const word = (at) => numbers.getUint16(2 * at, true);
  const total = (bytes.length / 2 - tokens) / 2;
  const rows = [];
  let entry = tokens;
  for (let token = 0; token < tokens; token += 1) {
    const pairs = [];
    for (let left = word(token); left > 0; left -= 1, entry += 1) {
      pairs.push([word(entry), word(entry + total) / 255]);
    }
    rows.push(pairs.sort((a, b) => b[1] - a[1]));
  }
  return rows;
}

function labelColour(label) {
  const name = report.labels[label];
  return name === "O" ? "outside" : colourOf(report.types.indexOf(name.slice(2)));
}

const isOutside = (pairs) => pairs.some(([label, p]) => report.labels[label] === "O" && p >= LIKELY);

const PREFIXES = { B: "begins an entity", I: "inside", E: "ends", S: "single-token entity", O: "outside" };

/** Explain the prefixes that the labels use. */
function prefixesInWords() {
  const used = Object.keys(PREFIXES).filter((letter) => report.labels.some((name) => name[0] === letter));
  return `${used.map((letter) => `${letter}: ${PREFIXES[letter]}`).join(", ")}.`;
}

/** Return a stacked bar, with its numbers as text for screen readers. */
function stack(pairs) {
  const text = pairs.map(([label, p]) => `${report.labels[label]} ${p.toFixed(2)}`).join(", ");
  const bar = make("div", "stack");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", text);
  // In the order of the labels, so that two bars of one token can be compared.
  for (const [label, p] of [...pairs].sort((a, b) => a[0] - b[0])) {
    const name = make("b", "", report.labels[label]); // shown where there is room
    const part = make("span", labelColour(label), name, make("i", "", ` ${p.toFixed(2)}`));
    part.style.setProperty("--share", p.toFixed(4));
    part.title = text; // not on the bar itself, where screen readers would repeat it after the label
    bar.append(part);
  }
  return bar;
}

/** Return a table of the tokens that may be in an entity, and a button that shows the others. */
function marginalsTable(sentence) {
  const tables = sentence.m.map((text) => unpack(text, sentence.t.length));
  const head = make("tr", "", make("th", "", "token"), ...report.names.map((name) => make("th", "", name)));
  const body = make("tbody");
  let left = 0;
  sentence.t.forEach((token, at) => {
    const cells = tables.map((table) => make("td", "", stack(table[at])));
    const name = make("th", "", token);
    name.scope = "row";
    name.title = token;
    const row = make("tr", "", name, ...cells);
    row.hidden = tables.every((table) => isOutside(table[at]));
    left += row.hidden;
    body.append(row);
  });
  const table = make("table", "marginals", make("thead", "", head), body);
  table.hidden = left === sentence.t.length;
  if (!left) return [table];
  const which = table.hidden ? `No token is likely to be in an entity. Show all ${left}` : `Show the ${left} others`;
  const button = make("button", "plain", which);
  button.type = "button";
  button.addEventListener("click", () => {
    table.hidden = false;
    for (const row of body.rows) row.hidden = false;
    button.remove();
  });
  return [table, button];
}
