// A sentence with its entities marked. A lane shows the gold entities, or those of the base or the full model.
// An entity is [first token, token after the last, index of its type, confidence].

const report = JSON.parse(document.getElementById("data").textContent);
const hasTerm = report.names.length > 1;
const lanes = [
  { name: "Gold", key: "g" },
  { name: report.names[0], key: "b" },
  ...(hasTerm ? [{ name: report.names[1], key: "f" }] : []),
];
const lastLane = lanes[lanes.length - 1];

/** Return an element with a class and with text or children; data always become text, never markup. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

const colourOf = (type) => `k${type % 8}`;
const sameSpan = (a, b) => a[0] === b[0] && a[1] === b[1] && a[2] === b[2];
const overlaps = (a, b) => a[0] < b[1] && b[0] < a[1];
const sameSpans = (spans, others) =>
  spans.length === others.length && spans.every((span) => others.some((other) => sameSpan(span, other)));

/** Return tokens as text, with the matches of a query underlined. */
function words(tokens, query) {
  const text = tokens.join(" ");
  const parts = [];
  let from = 0;
  for (let at; query && (at = text.toLowerCase().indexOf(query, from)) >= 0; from = at + query.length) {
    parts.push(text.slice(from, at), make("span", "match", text.slice(at, at + query.length)));
  }
  return [...parts, text.slice(from)];
}

/** Mark an entity; a higher confidence gives a stronger colour. */
function markOf(sentence, span, lane, query) {
  const [start, end, type, confidence] = span;
  const name = report.types[type];
  const right = lane.key === "g" || sentence.g.some((gold) => sameSpan(gold, span));
  const mark = make("mark", `${colourOf(type)}${right ? "" : " wrong"}`);
  mark.append(...words(sentence.t.slice(start, end), query));
  let label = name;
  mark.title = name;
  if (confidence !== undefined) {
    mark.style.setProperty("--p", `${(4 + 36 * confidence ** 2).toFixed(1)}%`);
    label += ` ${confidence.toFixed(2)}`;
    mark.title = `${name}, confidence ${confidence.toFixed(3)}`;
  }
  if (!right) {
    const gold = sentence.g.filter((entity) => overlaps(entity, span)).map((entity) => report.types[entity[2]]);
    mark.title += gold.length ? `; gold: ${gold.join(", ")}` : "; gold: none";
  }
  mark.append("\u00a0", make("small", "", label), ...(right ? [] : [make("span", "hidden", " (wrong)")]));
  return mark;
}

/** Mark a gold entity of which no token was predicted. */
function missedOf(sentence, span, query) {
  const mark = make("mark", "missed", ...words(sentence.t.slice(span[0], span[1]), query));
  mark.title = `missed: ${report.types[span[2]]}`;
  mark.append(make("span", "hidden", " (missed)"));
  return mark;
}

/** Return a sentence with the entities of a lane and the gold entities that it misses. */
function marked(sentence, lane, query = "") {
  const entities = sentence[lane.key];
  const missed = sentence.g.filter((gold) => !entities.some((span) => overlaps(span, gold)));
  const shown = [...entities.map((span) => [span, true]), ...missed.map((span) => [span, false])];
  shown.sort(([a], [b]) => a[0] - b[0]);
  const line = document.createDocumentFragment();
  let at = 0;
  for (const [span, predicted] of shown) {
    if (at < span[0]) line.append(...words(sentence.t.slice(at, span[0]), query), " ");
    line.append(predicted ? markOf(sentence, span, lane, query) : missedOf(sentence, span, query), " ");
    at = span[1];
  }
  if (at < sentence.t.length) line.append(...words(sentence.t.slice(at), query));
  return line;
}

/** Return the lanes of a sentence; with `together`, lanes with the same entities share a row. */
function laneRows(sentence, together, query) {
  const groups = [];
  for (const lane of lanes) {
    const same = together && groups.find((group) => sameSpans(sentence[group[0].key], sentence[lane.key]));
    if (same) same.push(lane);
    else groups.push([lane]);
  }
  const rows = make("div", "lanes");
  for (const group of groups) {
    const names = group.length === lanes.length ? "All agree" : group.map((lane) => lane.name).join(", ");
    const text = make("p", "", marked(sentence, group[group.length - 1], query));
    rows.append(make("div", "lane", make("b", "", names), text));
  }
  return rows;
}
