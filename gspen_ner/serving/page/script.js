"use strict";
// All text is set as textContent, so that pasted text is shown and never executed.

const HUES = [210, 28, 130, 290, 350, 60, 170, 250];
const page = Object.fromEntries(
  ["model", "form", "text", "k", "status", "legend", "result"].map((id) => [id, document.getElementById(id)]),
);
let types = [];
let hasTerm = false;
let latest = 0;

function make(tag, content, className) {
  const element = document.createElement(tag);
  if (content !== undefined) element.append(content);
  if (className) element.className = className;
  return element;
}

function counted(number, singular, plural) {
  return `${number} ${number === 1 ? singular : plural}`;
}

function percent(probability) {
  return `${(100 * probability).toFixed(1)} %`;
}

function entityMark(text, type, label, strength) {
  const mark = make("mark", text);
  mark.style.setProperty("--hue", HUES[Math.max(types.indexOf(type), 0) % HUES.length]);
  mark.style.setProperty("--strength", strength);
  if (label) mark.append(make("small", label));
  return mark;
}

// The server counts Unicode code points, JavaScript strings UTF-16 units: `characters` is an array of code points.
function sentenceLine(characters, sentence) {
  const line = make("div", undefined, "sentence");
  let position = sentence.start;
  const slice = (start, end) => characters.slice(start, end).join("");
  for (const entity of sentence.entities) {
    line.append(slice(position, entity.start));
    const label = `${entity.type} ${percent(entity.confidence)}`;
    const mark = entityMark(entity.text, entity.type, label, 0.1 + 0.35 * entity.confidence);
    if (entity.changed) {
      mark.classList.add("changed");
      mark.title = "added by the global term";
    }
    line.append(mark);
    position = entity.end;
  }
  line.append(slice(position, sentence.end));
  return line;
}

function kBest(labellings) {
  const details = make("details");
  details.append(make("summary", "best labellings"));
  const table = make("table");
  for (const { probability, entities } of labellings) {
    const row = make("tr");
    row.append(make("td", percent(probability)));
    const cell = make("td");
    for (const entity of entities) cell.append(entityMark(entity.text, entity.type, entity.type, 0.2), " ");
    if (!entities.length) cell.append("no entities");
    row.append(cell);
    table.append(row);
  }
  details.append(table);
  return details;
}

function show(text, sentences) {
  const characters = Array.from(text);
  let block, number;
  for (const sentence of sentences) {
    if (sentence.document !== number) {
      block = make("div", undefined, "document");
      page.result.append(block);
      number = sentence.document;
    }
    block.append(sentenceLine(characters, sentence));
    for (const entity of sentence.gone) {
      const without = make("p", "without the global term: ", "gone");
      without.append(entityMark(entity.text, entity.type, `${entity.type} ${percent(entity.confidence)}`, 0.1));
      block.append(without);
    }
    if (sentence.k_best.length) block.append(kBest(sentence.k_best));
  }
}

function say(message, problem) {
  page.status.textContent = message;
  page.status.className = problem ? "problem" : "";
}

async function tag(event) {
  event.preventDefault();
  const text = page.text.value;
  const turn = ++latest;
  say("…");
  try {
    const response = await fetch("tag", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text, k_best: Number(page.k.value) || 0 }),
    });
    const answer = await response.json();
    if (turn !== latest) return; // a later request is pending
    page.result.replaceChildren();
    if (!response.ok) {
      const detail = typeof answer.detail === "string" ? answer.detail : answer.detail.map((d) => d.msg).join("; ");
      say(detail, true);
      return;
    }
    const entities = answer.sentences.flatMap((sentence) => sentence.entities);
    const changed = entities.filter((entity) => entity.changed).length;
    const gone = answer.sentences.flatMap((sentence) => sentence.gone).length;
    const counts = `${counted(answer.sentences.length, "sentence", "sentences")}, ${counted(entities.length, "entity", "entities")}`;
    say(hasTerm ? `${counts}; the global term added ${changed} and removed ${gone}` : counts);
    show(text, answer.sentences);
  } catch (error) {
    if (turn === latest) say(`no answer: ${error.message}`, true);
  }
}

page.form.addEventListener("submit", tag);
page.text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) page.form.requestSubmit();
});
fetch("health")
  .then((response) => response.json())
  .then((health) => {
    types = health.types;
    page.model.textContent = `${health.model} (${health.system})`;
    page.legend.hidden = false;
    for (const type of types) page.legend.append(entityMark(type, type, "", 0.35), " ");
    hasTerm = ["spen", "gspen"].includes(health.system);
    if (hasTerm) page.legend.append(make("span", "added by the global term", "changed"));
  })
  .catch((error) => say(`no answer: ${error.message}`, true));
