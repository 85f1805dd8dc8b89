// Printing lists the chosen sentences from the current page on, up to a limit, with the filters in words. An opened
// sentence stays open.

const PRINTED = 100;

function filtersInWords() {
  const words = [statuses.find((status) => status.key === state.status).name];
  if (state.status === "low") words[0] += ` (below ${byId("limit-shown").textContent})`;
  if (byId("type").value !== "") words.push(`with an entity of type ${byId("type").selectedOptions[0].text}`);
  if (query()) words.push(`with “${query()}”`);
  if (byId("order").value !== "given") words.push(byId("order").selectedOptions[0].text);
  return words.join(", ");
}

function rangeInWords(first) {
  const last = Math.min(first + PRINTED, state.shown.length);
  const all = first === 0 && last === state.shown.length;
  return `${all ? "" : `${inWords(first + 1)} to ${inWords(last)} of `}${inWords(state.shown.length)} sentences`;
}

function ontoPaper() {
  const opened = state.open;
  const first = state.page * PAGE_SIZE;
  list(first, PRINTED);
  open(opened);
  byId("printed").textContent = `${filtersInWords()}: ${rangeInWords(first)}`;
}

function backToScreen() {
  const opened = state.open;
  showPage();
  open(opened);
}

addEventListener("beforeprint", ontoPaper);
addEventListener("afterprint", backToScreen);
