"""Print the convergence of a small GSPEN inference: the document resolves what a sentence leaves ambiguous.

    python recipes/inference_demo.py

Six toy sentences in two documents, with hand-written scores. In the first document "Lyon" is clearly a
location once and ambiguous twice; in the second it is clearly a person once and ambiguous twice. The term
rewards equal labels for mentions of the same word in the same document.
"""

import torch
from rich.console import Console
from rich.table import Table

from gspen_ner import Chain, Context, DocumentConsistency, GSPENHead, Labels, match_mentions
from gspen_ner.decode import span_probabilities

LABELS = Labels(("O", "S-PER", "S-LOC"), "BIOES")
SENTENCES = [
    "trains to Lyon left",
    "Lyon was quiet",
    "asked in Lyon",
    "Mrs Lyon spoke",
    "Lyon agreed",
    "said Lyon",
]
DOCUMENTS = [0, 0, 0, 1, 1, 1]
CUES = {(0, 2): "S-LOC", (3, 1): "S-PER"}  # unambiguous sentences
LEANINGS = {
    (1, 0): "S-PER",
    (2, 2): "S-PER",
    (4, 0): "S-LOC",
    (5, 1): "S-LOC",
}  # slightly misleading sentences


def node_scores(tokens: list[list[str]]) -> torch.Tensor:
    """Return hand-written scores `[sentence, token, label]`."""
    nodes = torch.zeros(len(tokens), max(map(len, tokens)), len(LABELS.names))
    nodes[..., 0] = 3.0
    for row, sentence in enumerate(tokens):
        for position, word in enumerate(sentence):
            if word == "Lyon":
                nodes[row, position, 0] = 0.0
                if (row, position) in CUES:
                    nodes[row, position, LABELS.names.index(CUES[row, position])] += 4.0
                else:
                    nodes[row, position, LABELS.names.index(LEANINGS[row, position])] += 0.4
                    nodes[row, position, 1:] += 2.0
    return nodes


def main() -> None:
    """Run the inference, then print its convergence and the entities with and without the term."""
    console = Console(width=100)
    tokens = [sentence.split() for sentence in SENTENCES]
    chain = Chain(torch.tensor([len(sentence) for sentence in tokens]))
    scores = chain.potentials(node_scores(tokens), torch.zeros(3, 3))
    mentions = match_mentions(tokens, DOCUMENTS)
    context = Context(chain.mask(scores.nodes.shape[1]), torch.tensor(DOCUMENTS), mentions)
    head = GSPENHead(DocumentConsistency(3, relations=["word"]), max_steps=30, tolerance=1e-6)
    with torch.no_grad():
        head.term.agreement.copy_(5.0 * torch.eye(3))

    solution = head.infer(scores, chain, context, record_trace=True)
    convergence = Table(
        "step", "objective", "residual (document 1)", "residual (document 2)", title="inference"
    )
    for step, (value, residual) in enumerate(
        zip(solution.trace.value.sum(1), solution.trace.residual, strict=True)
    ):
        convergence.add_row(str(step), f"{value:.6f}", f"{residual[0]:.2e}", f"{residual[3]:.2e}")
    console.print(convergence)
    state = "converged" if solution.converged.all() else "not converged"
    console.print(f"{state} after {solution.steps.tolist()} steps\n")

    result = Table("document", "sentence", "CRF alone", "with the document term", title="effect of the term")
    for row, sentence in enumerate(SENTENCES):
        columns = []
        for theta in (scores, solution.theta):
            labels = chain.argmax(theta)[row, : len(tokens[row])].tolist()
            spans = LABELS.spans_of_indices(labels)
            spans_of_rows = [spans if other == row else [] for other in range(len(tokens))]
            probability = span_probabilities(theta, chain, LABELS, spans_of_rows)[row]
            named = zip(spans, probability, strict=True)
            columns.append(", ".join(f"{tokens[row][s.start]} {s.type} ({p:.2f})" for s, p in named))
        result.add_row(str(DOCUMENTS[row] + 1), sentence, *columns)
    console.print(result)


if __name__ == "__main__":
    main()
