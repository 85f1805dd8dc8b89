// The sentence browser: filters, search, order, pages, and the keyboard.

const PAGE_SIZE = 20;
const byId = (id) => document.getElementById(id);
const texts = report.sentences.map((sentence) => sentence.t.join(" ").toLowerCase());
const lowestConfidence = report.sentences.map((sentence) => Math.min(1, ...sentence[lastLane.key].map((span) => span[3])));
const errorsOf = (sentence) => sentence.x[1] + sentence.x[2];
const statuses = [
  { key: "all", name: "All", test: () => true },
  ...(hasTerm
    ? [
        { key: "fixed", name: "Fixed", test: (sentence) => sentence.x[0] > 0 },
        { key: "broken", name: "Broken", test: (sentence) => sentence.x[1] > 0 },
      ]
    : []),
  { key: "wrong", name: "Wrong", test: (sentence) => errorsOf(sentence) > 0 },
  { key: "low", name: "Low confidence", test: (_, number) => lowestConfidence[number] < Number(byId("limit").value) },
];
const inWords = (number) => number.toLocaleString("en");
const state = { status: "all", page: 0, open: null, shown: [] };

function query() {
  return byId("query").value.trim().replace(/\s+/g, " ").toLowerCase();
}

/** Return the indices of the sentences that pass all filters, in the chosen order. */
function filteredSentences() {
  const searched = query();
  const type = byId("type").value === "" ? null : Number(byId("type").value);
  const { test } = statuses.find((status) => status.key === state.status);
  const ofType = (sentence) => lanes.some((lane) => sentence[lane.key].some((span) => span[2] === type));
  const chosen = [];
  report.sentences.forEach((sentence, number) => {
    if (!test(sentence, number) || (type !== null && !ofType(sentence))) return;
    if (texts[number].includes(searched)) chosen.push(number);
  });
  const order = byId("order").value;
  if (order === "unsure") chosen.sort((a, b) => lowestConfidence[a] - lowestConfidence[b]);
  if (order === "errors") {
    chosen.sort((a, b) => errorsOf(report.sentences[b]) - errorsOf(report.sentences[a]));
  }
  return chosen;
}

function tagsOf(sentence) {
  const [fixed, broken, same] = sentence.x;
  const tags = make("p", "tags");
  if (hasTerm && fixed) tags.append(make("span", "fixed", `${fixed} fixed`));
  if (hasTerm && broken) tags.append(make("span", "broken", `${broken} new`));
  if (same) tags.append(make("span", "same", `${same} ${hasTerm ? "still wrong" : "wrong"}`));
  return tags;
}

function itemOf(number) {
  const sentence = report.sentences[number];
  const toggle = make("button", "", "▸");
  toggle.type = "button";
  toggle.dataset.number = number;
  toggle.setAttribute("aria-expanded", "false");
  toggle.setAttribute("aria-label", `Details of sentence ${number + 1}`);
  const rows = laneRows(sentence, true, query());
  const row = make("div", "row", make("span", "number", String(number + 1)), rows, tagsOf(sentence), toggle);
  row.addEventListener("click", () => {
    if (String(getSelection()) === "") open(state.open === number ? null : number);
  });
  const item = make("li", "", row);
  item.id = `sentence-${number + 1}`;
  return item;
}

/** Open a sentence, with one row per lane, and close the others; null closes all. */
function open(number) {
  state.open = number;
  for (const toggle of byId("list").querySelectorAll(".row button")) {
    const isOpen = Number(toggle.dataset.number) === number;
    if (toggle.getAttribute("aria-expanded") === String(isOpen)) continue;
    toggle.setAttribute("aria-expanded", String(isOpen));
    const item = toggle.closest("li");
    const sentence = report.sentences[toggle.dataset.number];
    item.querySelector(".lanes").replaceWith(laneRows(sentence, !isOpen, query()));
    item.querySelector(".more")?.remove();
    if (isOpen) {
      item.append(detailsOf(number, goTo));
      scrollToHere(item.querySelector(".document"));
    }
  }
}

/** Scroll a document so that the sentence before the opened one is the first visible one. */
function scrollToHere(document) {
  const before = document?.querySelector(".here").previousElementSibling;
  if (before) document.scrollTop = before.offsetTop - document.offsetTop;
}

function clearFilters() {
  byId("controls").reset();
  state.status = "all";
  refresh();
}

/** Go to a sentence and open it; filters are cleared if they hide it. */
function goTo(number) {
  if (!state.shown.includes(number)) clearFilters();
  state.page = Math.floor(state.shown.indexOf(number) / PAGE_SIZE);
  showPage();
  open(number);
  const item = byId(`sentence-${number + 1}`);
  item.scrollIntoView({ block: "nearest" });
  item.querySelector(".row button").focus();
}

/** List `count` of the chosen sentences from `first` on, all closed. */
function list(first, count) {
  byId("list").replaceChildren(...state.shown.slice(first, first + count).map(itemOf));
  byId("list").start = first + 1;
  state.open = null;
}

function showPage() {
  const pages = Math.max(1, Math.ceil(state.shown.length / PAGE_SIZE));
  state.page = Math.min(Math.max(state.page, 0), pages - 1);
  const first = state.page * PAGE_SIZE;
  list(first, PAGE_SIZE);
  byId("page").textContent = `Page ${state.page + 1} of ${pages}`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page === pages - 1;
  byId("pages").hidden = pages === 1;
  byId("nothing").hidden = state.shown.length > 0;
}

/** Apply the filters and show the first page. */
function refresh() {
  const limit = Number(byId("limit").value);
  byId("limit-shown").textContent = limit.toFixed(2);
  byId("below").hidden = state.status !== "low";
  state.shown = filteredSentences();
  state.page = 0;
  byId("count").textContent = `${inWords(state.shown.length)} of ${inWords(report.sentences.length)} sentences`;
  showPage();
}

function turn(by) {
  state.page += by;
  showPage();
  byId("list").querySelector(".row button")?.focus();
}

function move(by) {
  const toggles = [...byId("list").querySelectorAll(".row button")];
  const at = toggles.indexOf(document.activeElement);
  toggles[Math.min(Math.max(at + by, 0), toggles.length - 1)]?.focus();
}

/** Return the action of a key at the focused element; null leaves the key to the web browser. */
function actionOf(key, target) {
  const typing = target.matches("input, select");
  const inList = target.closest("#list") && !target.closest(".document");
  if (key === "/" && !typing) return () => byId("query").focus();
  if (key === "Escape" && !typing && state.open !== null) return close;
  if (key === "ArrowDown" && (inList || target === byId("query"))) return () => move(1);
  if (!inList) return null;
  if (key === "ArrowUp") return () => move(-1);
  if (key === "ArrowRight" && !byId("next").disabled) return () => turn(1);
  if (key === "ArrowLeft" && !byId("previous").disabled) return () => turn(-1);
  return null;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = actionOf(event.key, event.target);
  if (!act) return;
  event.preventDefault();
  act();
}

function close() {
  const toggle = byId(`sentence-${state.open + 1}`).querySelector(".row button");
  open(null);
  toggle.focus();
}

function fillControls() {
  report.types.forEach((name, number) => byId("type").append(new Option(name, number)));
  for (const status of statuses) {
    const input = make("input");
    Object.assign(input, { type: "radio", name: "status", value: status.key, defaultChecked: status.key === "all" });
    const label = make("label", "", input, status.name);
    if (status.key !== "low") {
      const count = report.sentences.filter((sentence, number) => status.test(sentence, number)).length;
      label.append(make("small", "", inWords(count)));
    }
    byId("status").append(label);
  }
  const names = report.types.map((name, number) => make("mark", colourOf(number), name));
  byId("key").append(...names.flatMap((name) => [name, " "]), "Stronger colours mean higher confidence; ");
  byId("key").append(make("mark", "wrong outside", "dashed"), " is wrong, ", make("mark", "missed", "dotted"), " missed. ");
  byId("key").append("A wrong type or boundary counts as two errors: a missed entity and an invented one.");
}

fillControls();
byId("controls").addEventListener("input", (event) => {
  if (event.target.name === "status") state.status = event.target.value;
  refresh();
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("clear").addEventListener("click", () => {
  clearFilters();
  byId("query").focus();
});
byId("previous").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
document.addEventListener("keydown", onKey);
refresh();
