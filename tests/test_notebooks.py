"""The notebooks: stored without outputs, and without an error from the first cell to the last."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SECONDS = 600
CHECKS = {
    "quickstart": [
        "assert full.f1 > base.f1 + 0.03, (base.f1, full.f1)",
        "assert changes.fixed > 2 * changes.broken, changes",
        "assert all(sum(by_type(row).values()) < 1 + 1e-4 for row in predictions[0].workings.marginals)",
        "assert not folder.exists()",
    ],
    "inside_inference": [
        "assert torch.allclose(base.marginals.nodes[0, 0], scores.nodes[0, 0].softmax(-1), atol=1e-5)",
        "highest = float(value(grid, 1.0, term).max())",
        "assert highest - 1e-5 < best_value < highest + 0.01",
        "assert all((way[-1] - both.marginals.nodes[0, 0]).abs().max() < 0.01 "
        "for (_, temperature), way in ways.items() if temperature == 1)",
        "kept = [name for name in schedules if 'line search' in name or 'backtracking' in name]",
        "assert len(kept) == 2 and all((traces[name].value.diff(dim=0) >= 0).all() for name in kept)",
        "assert solution.converged.all()",
        "best = [[int(table[row, place].argmax()) for row, place in mentions] for table in (before, after)]",
        "assert best == [[2, 1, 1], [2, 2, 2]], best",
        "assert abs(turned[0] - [float(before[row, place, 2]) for row, place in mentions]).max() < 1e-5",
        "assert (np.diff(turned, axis=0) > -5e-3).all()",
        "assert abs(steps[-1] - [float(after[row, place, 2]) for row, place in mentions]).max() < 0.01",
    ],
    "what_the_global_term_does": [
        "assert full.score.f1 > base.score.f1 + 0.03, (base.score.f1, full.score.f1)",
        "assert len(mended) > 2 * len(broken) > 0, (len(mended), len(broken))",
        "assert abs(before.sum(1) - 1).max() < 1e-4 and abs(after.sum(1) - 1).max() < 1e-4",
        "assert knows[~was & now].mean() > knows[was & ~now].mean() + 0.2",
        "assert all(each.equal(each.mT) for each in matrices.values())",
        "word_agreement, at = matrices['agreement'][0], names.index",
        "assert word_agreement[at('S-PER'), at('E-PER')] > 0 > word_agreement[at('S-PER'), at('S-LOC')]",
        "assert abs(crf - 100 * base.score.f1) < 0.1 and abs(whole - 100 * full.score.f1) < 0.1",
        "assert alone['content_word'] > crf + 3, alone",
        "gains = {group: scores[1][group].f1 - scores[0][group].f1 for group in groups}",
        "assert groups == [1, 2, 3, 4, 5, 6] and gains[5] > gains[1] + 0.05, gains",
        "assert how.converged > 0.95 and sum(how.steps) == len(test)",
        "assert np.median(moved[word < 0]) < 0.01 < np.median(moved[(word >= 0) & (count > 1)])",
        "assert not folder.exists()",
    ],
    "flair_upgrade": [
        "assert f1_after > f1_before + 0.03, (f1_before, f1_after)",
        "assert strict_after > strict_before + 0.03, (strict_before, strict_after)",
        "assert same and abs(loss - loss_before) < 1e-4 * loss_before",
        "assert mended.total() > 2 * broken.total()",
        "assert list(results.values()) == [f1_after, f1_before, f1_before]",
        "assert not folder.exists()",
    ],
    "factor_graphs": [
        # A graph of your own
        "assert tree_error < 1e-5 and best[0].equal(exact_best) and np.prod(tree.graph.label_counts) == 144",
        "assert beliefs.nodes[0, 0].argmax() == 0 and best[0, 0] == 2",
        "assert loopy_beliefs.nodes[0, 0].argmax() == loopy_exact.nodes[0, 0].argmax() == loopy_best[0] == 2",
        "assert loopy_beliefs.nodes[0, 0, 2] < loopy_exact.nodes[0, 0, 2] - 0.2",
        "tags_beliefs, pairs_beliefs = loopy_beliefs.nodes[0], loopy_beliefs.edges[0]",
        "triple = torch.nn.functional.pad(loopy_beliefs.factors[0].view(3, 3, 4), (0, 0, 0, 1, 0, 1))",
        "firsts, seconds = zip(*loopy.graph.scopes[:4])",
        "torch.testing.assert_close(pairs_beliefs.sum(2), tags_beliefs[list(firsts)])",
        "torch.testing.assert_close(pairs_beliefs.sum(1), tags_beliefs[list(seconds)])",
        "sums = [triple.sum(rest) for rest in ((1, 2), (0, 2), (0, 1))]",
        "torch.testing.assert_close(torch.stack(sums), tags_beliefs[:3])",
        # What loops do
        "assert 'has loops' in refusal",
        "assert errors['without loops', 'Bethe'] < 1e-5 < 0.05 < errors['without loops', 'unit']",
        "assert 0.01 < errors['with loops', 'each variable once'] < errors['with loops', 'unit'] - 0.1",
        "entropy = lambda found: torch.special.entr(found.nodes).sum(-1)",
        "assert all((entropy(found['unit']) > entropy(found['exact'])).all() for found in ways.values())",
        "assert (loopy.counting_numbers.totals(loopy.graph)[:2] == 4).all()",
        "assert (once.counting_numbers.totals(loopy.graph) - 1).abs().max() < 1e-9",
        "assert most_apart == 2 and apart.dot(fractional)[0] == 3 and (fractional.nodes == 0.5).all()",
        "assert milliseconds['linear programming'] > 2 * milliseconds['rounded messages'], milliseconds",
        "program, messages = above.values()",
        "assert (program > -1e-6).all() and (messages < program + 1e-6).all()",
        "assert (program - messages).quantile(0.9) < 0.1",
        "assert 0 < tight.sum() < len(tight)",
        "assert (points['linear programming'].nodes[tight].amax(-1) > 1 - 1e-6).all()",
        "far = torch.tensor(list(distance.values())).clamp_min(1e-12)",
        "assert (far.diff(dim=1) <= 0).all() and (far.diff(dim=0) >= 0).all()",
        "assert guesses['argmax'] >= guesses['maximiser'] > 1.5 * guesses['likeliest'], guesses",
        # A global term, and two solvers
        "assert len(plans) == 19_683",
        "assert [bool(solution.converged) for solution in solutions.values()] == [True, True, True, False]",
        "assert all(best_value - solution.value < 1e-5 for solution in list(solutions.values())[:3])",
        "assert max(solutions[name].steps for name in list(solutions)[:2]) <= 15",
        "traced = [solution.trace for solution in solutions.values()]",
        "assert all((best_value - trace.value < trace.residual + 1e-6).all() for trace in traced)",
        "assert all((it.marginals.nodes.sum(-1) - 1).abs().max() < 1e-6 for it in solutions.values())",
        "assert chosen['without the term'].bincount().tolist() == [5, 1, 3]",
        "assert chosen['with the term'].equal(best_plan) and best_plan.bincount().tolist() == [3, 3, 3]",
        # Systems that are trained
        "assert right['GSPEN'] > right['Struct'] + 20 and right['NLStruct'] > right['Struct'] - 10, right",
    ],
    "reading_words": [
        "assert accuracy['Unary'] + 20 < min(accuracy['Struct'], accuracy['SPEN']), accuracy",
        "assert max(accuracy['Struct'], accuracy['SPEN']) < accuracy['GSPEN'], accuracy",
        "shares = {name: 100 * float((wrong[name] == 0).double().mean()) for name in accuracy}",
        "assert all(abs(accuracy[name] - shares[name]) < 0.6 for name in accuracy), shares",
        "assert wrong['Unary'][row] > 0 and wrong['GSPEN'][row] == 0",
        "assert all((marginals.sum(-1) - 1).abs().max() < 1e-4 for marginals in stages.values())",
        "descent, walk = inferences['mirror descent'], inferences['Frank-Wolfe']",
        "assert descent.converged.all() and descent.steps.max() <= 15",
        "assert walk.converged.double().mean() > 0.9, walk.converged.double().mean()",
        "assert all((it.trace.value.diff(dim=0) >= 0).all() for it in inferences.values())",
        "assert apart_by < 1e-4",
        "assert not folder.exists()",
    ],
    "huggingface": [
        "assert news['train'].features['ner_tags'].feature.names == names",
        "assert encoded['train'].column_names[-1] == 'labels' and f1_softmax > 0.7",
        # The CRF and its term start where they should
        "assert same and farthest < 1e-5",
        "assert f1_crf > f1_softmax - 0.02, (f1_softmax, f1_crf)",
        "assert f1_start == f1_crf and trained == 16 * len(names) ** 2",
        "assert f1_gspen > f1_crf + 0.05, (f1_crf, f1_gspen)",
        "assert mended.total() > 2 * broken.total()",
        "assert mended[shown] > broken[shown]",
        "inside = [marginals[story.index(row), place].sum() for row, place in places]",
        "assert all(abs(total - 1) < 1e-4 for total in inside)",
        "at = names.index",
        "assert min(agreement[at('B-PER'), at('I-PER')], agreement[at('B-LOC'), at('I-LOC')]) > 0, agreement",
        "assert all(agreement[at(name), at(name)] > 0 for name in names if name != 'I-PER'), agreement",
        # Confidences
        "assert max(excess) > 0.05",
        "assert all(0.95 * entity.probability < sum < 1.001 * entity.probability "
        "for entity, sum in zip(entities, sums))",
        "spans = [[entity.span for entity in each[row].entities] for each in (alone, after)]",
        "assert spans[0] != spans[1]",
        "assert believed > np.mean(hits) + 0.02",
        # Windows
        "assert length > 2 * gspen.scorer.frame.size and len(windows) > 2 and windows[-1][-1] == length",
        "assert len(wanted & found) > len(within) and max(span.end for span in wanted & found) > kept",
        # Files
        "assert f'{100 * score.f1:.2f}' in card and '`document`' in card",
        "assert {type(model) for model in ways.values()} == {GSPENForTokenClassification}",
        "assert list(results.values()) == [f1_gspen] * 3",
        "assert not folder.exists()",
    ],
}
"""What holds when a notebook has run, in its own variables."""

NEEDS = {"flair_upgrade": ("flair",), "reading_words": ("PIL", "sklearn")}
"""Packages of a notebook's own."""

every_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def test_every_check_has_its_notebook():
    assert set(CHECKS) <= {file.stem for file in NOTEBOOKS}


@every_notebook
def test_is_stored_without_outputs(file):
    notebook = json.loads(file.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@every_notebook
def test_runs_without_error(file, tmp_path):
    for needed in (*NEEDS.get(file.stem, ()), "ipykernel", "matplotlib"):
        pytest.importorskip(needed)
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(file, as_version=4)
    checks = [nbformat.v4.new_code_cell(check) for check in CHECKS.get(file.stem, [])]
    notebook.cells += checks
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources)
    client.execute()  # raises at the first cell that fails
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not list(tmp_path.iterdir())
