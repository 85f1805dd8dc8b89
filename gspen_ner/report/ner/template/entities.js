// A sentence with its entities marked: by the gold tags, the base model, or the whole.
// An entity is [first token, token behind the last, number of its type, confidence].

const report = JSON.parse(document.getElementById("data").textContent);
const hasTerm = report.names.length > 1;
const lanes = [
  { name: "Gold", key: "g" },
  { name: report.names[0], key: "b" },
  ...(hasTerm ? [{ name: report.names[1], key: "f" }] : []),
];
const lastLane = lanes[lanes.length - 1];

/** An element with a class, text or children; whatever comes from the data becomes text, never markup. */
function make(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const colourOf = (type) => `k${type % 8}`;
const sameSpan = (one, other) => one[0] === other[0] && one[1] === other[1] && one[2] === other[2];
const overlaps = (one, other) => one[0] < other[1] && other[0] < one[1];
const sameSpans = (some, others) =>
  some.length === others.length && some.every((span) => others.some((other) => sameSpan(span, other)));

/** Tokens as text, with what was searched for underlined. */
function words(tokens, query) {
  const text = tokens.join(" ");
  const parts = [];
  let from = 0;
  for (let at; query && (at = text.toLowerCase().indexOf(query, from)) >= 0; from = at + query.length) {
    parts.push(text.slice(from, at), make("span", "found", text.slice(at, at + query.length)));
  }
  return [...parts, text.slice(from)];
}

/** One entity: the surer, the stronger its colour. */
function markOf(sentence, span, lane, query) {
  const [start, end, type, confidence] = span;
  const name = report.types[type];
  const right = lane.key === "g" || sentence.g.some((gold) => sameSpan(gold, span));
  const mark = make("mark", `${colourOf(type)}${right ? "" : " wrong"}`);
  mark.append(...words(sentence.t.slice(start, end), query));
  let said = name;
  mark.title = name;
  if (confidence !== undefined) {
    mark.style.setProperty("--p", `${(4 + 36 * confidence ** 2).toFixed(1)}%`);
    said += ` ${confidence.toFixed(2)}`;
    mark.title = `${name}, confidence ${confidence.toFixed(3)}`;
  }
  if (!right) {
    const gold = sentence.g.filter((entity) => overlaps(entity, span)).map((entity) => report.types[entity[2]]);
    mark.title += gold.length ? `; gold: ${gold.join(", ")}` : "; gold: none";
  }
  mark.append("\u00a0", make("small", "", said), ...(right ? [] : [make("span", "hidden", " (wrong)")]));
  return mark;
}

/** A gold entity of which nothing was found. */
function missedOf(sentence, span, query) {
  const mark = make("mark", "missed", ...words(sentence.t.slice(span[0], span[1]), query));
  mark.title = `missed: ${report.types[span[2]]}`;
  mark.append(make("span", "hidden", " (missed)"));
  return mark;
}

/** The sentence as one lane sees it. */
function marked(sentence, lane, query = "") {
  const found = sentence[lane.key];
  const missed = sentence.g.filter((gold) => !found.some((span) => overlaps(span, gold)));
  const shown = [...found.map((span) => [span, true]), ...missed.map((span) => [span, false])];
  shown.sort(([one], [other]) => one[0] - other[0]);
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

/** Lanes of a sentence; those that agree on all entities may share one. */
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
