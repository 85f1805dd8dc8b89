// The details of an opened sentence: marginals, convergence of inference, and its document.

const documents = new Map();
report.sentences.forEach((sentence, number) => {
  if (!documents.has(sentence.d)) documents.set(sentence.d, []);
  documents.get(sentence.d).push(number);
});

function part(title, ...children) {
  return make("section", "", make("h3", "", title), ...children);
}

function inferenceWords(sentence) {
  const steps = `${sentence.s} ${sentence.s === 1 ? "step" : "steps"}`;
  const last = sentence.r.length ? `, residual ${sentence.r[sentence.r.length - 1]}` : "";
  const way = sentence.r.length > 1 ? ` (${sentence.r.join(" → ")})` : "";
  return `${steps}${last}, ${sentence.c ? "converged" : "not converged"}${way}`;
}

/** Return the document of a sentence; a click on a sentence opens it. */
function documentAround(number, goTo) {
  const box = make("div", "document");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "The document");
  for (const other of documents.get(report.sentences[number].d)) {
    const button = make("button", "plain", String(other + 1));
    button.type = "button";
    button.setAttribute("aria-label", `Go to sentence ${other + 1}`);
    const line = make("p", other === number ? "here" : "", button, marked(report.sentences[other], lastLane));
    if (other === number) line.setAttribute("aria-current", "true");
    line.addEventListener("click", () => goTo(other));
    box.append(line);
  }
  return box;
}

function detailsOf(number, goTo) {
  const sentence = report.sentences[number];
  const more = make("div", "more");
  if (sentence.m) {
    const title = hasTerm ? "Labels before and after the global term" : "Labels";
    more.append(part(title, make("p", "quiet", prefixesInWords()), ...marginalsTable(sentence)));
  }
  if (sentence.r) more.append(part("Inference", make("p", "quiet", inferenceWords(sentence))));
  const whole = documents.get(sentence.d);
  if (whole.length > 1) {
    const position = whole.indexOf(number) + 1;
    const title = `Its document, with the entities of ${lastLane.name} (sentence ${position} of ${whole.length})`;
    more.append(part(title, documentAround(number, goTo)));
  }
  return more;
}
