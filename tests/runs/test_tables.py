"""Figures stand under the system they belong to."""

from types import SimpleNamespace

from rich.console import Console

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import Evaluation, assess, compare_errors
from gspen_ner.ner.predictions import Prediction
from gspen_ner.runs.run import Results
from gspen_ner.runs.tables import evaluation_table, results_table, showcase, trials_table


def shown(table):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(table)
    return console.export_text()


def evaluation(base, full):
    gold = [[Span(0, 1, "A")]]
    predicted = [[[ScoredSpan(span, 0.9) for span in spans]] for spans in (base, full)]
    before, after = ([[entity.span for entity in row] for row in rows] for rows in predicted)
    assessed = [assess(gold, rows, [2]) for rows in predicted]
    return Evaluation(1, *assessed, compare_errors(gold, before, after))


def test_a_type_that_only_the_term_predicts_has_no_figures_under_the_base():
    table = evaluation_table(evaluation([], [Span(1, 2, "B")]), "gspen", "title")
    row = next(line for line in shown(table).splitlines() if line.startswith("│ B "))
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[2:5] == ["", "", ""]
    assert cells[5:] == ["0.00", "0.00", "0.00"]


def test_trials_are_shown_as_mean_and_one_by_one():
    right, wrong = [Span(0, 1, "A")], []
    results = [
        Results(seed, "gspen", {"base": 2.0}, evaluation(base, right))
        for seed, base in ((1, right), (2, wrong))
    ]
    text = shown(results_table(results, "title"))
    assert "50.00 ± 70.71" in text
    assert "100.00 ± 0.00" in text
    rows = shown(trials_table(results, "title")).splitlines()
    assert any("2" in row and "0.00" in row and "100.00" in row for row in rows)


def test_the_showcase_is_the_document_with_most_errors_fixed_and_none_left():
    sentences = [
        TaggedSentence(("Ann", "left"), ("B-PER", "O"), document=0),
        TaggedSentence(("Rome", "won"), ("B-ORG", "O"), document=1),
        TaggedSentence(("Rome", "lost"), ("B-ORG", "O"), document=1),
    ]
    missed = Prediction(("Ann", "left"), [], [], [])
    place, team = ScoredSpan(Span(0, 1, "LOC"), 0.6), ScoredSpan(Span(0, 1, "ORG"), 0.9)
    corrected = [Prediction(sentence.tokens, [team], [place], []) for sentence in sentences[1:]]
    wrong = [Prediction(sentence.tokens, [place], [place], []) for sentence in sentences[1:]]

    def texts(system, predictions):
        tagger = SimpleNamespace(system=system, tag_sentences=lambda sentences: predictions)
        return [str(text).strip() for text in showcase(tagger, sentences)][1:]

    assert texts("gspen", [missed, *corrected]) == ["Rome ✗LOC ORG 0.90 won", "Rome ✗LOC ORG 0.90 lost"]
    assert texts("gspen", [missed, *wrong]) == []
    assert texts("struct", [missed, *corrected]) == []
