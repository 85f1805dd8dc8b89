"""`gspen-ner train`, `evaluate`, `predict`, `data describe` and `recipes` as a user meets them."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gspen_ner.hosts.huggingface.tagger import Tagger
from gspen_ner.hosts.huggingface.trainer import StageTrainer
from gspen_ner.ner.files import read_tagged_file
from gspen_ner.ner.newswire import generate_newswire
from gspen_ner.recipe import recipe_names
from tests.tiny import content_of, gspen_ner, write_conll, write_recipe

ROOT = Path(__file__).parent.parent
TEXT = (
    "Ms. Anna Halden spoke in Graz on Friday. Halden left.\n\nTwo people were seen near Accra, police said.\n"
)


def run(*arguments, text=None):
    result = gspen_ner(*arguments, text=text)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments, message, code=1, text=None):
    """The command says what is wrong, in words."""
    result = gspen_ner(*arguments, text=text)
    assert result.exit_code == code
    assert message in re.sub(r"[\s│]+", " ", result.output)
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)
    return result


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A tagged file of three documents."""
    return write_conll(tmp_path_factory.mktemp("corpus") / "gold.conll", generate_newswire(3, seed=8))


def entries(output):
    return [json.loads(line) for line in output.splitlines()]


VERBS = (
    "train", "evaluate", "compare", "report", "predict", "tag", "serve", "rank", "recipes", "doctor",
)  # fmt: skip


@pytest.mark.parametrize(
    "verb",
    [
        *((verb,) for verb in VERBS),
        ("data", "describe"),
    ],
)
def test_every_command_has_an_example_in_its_help(verb):
    output = run(*verb, "--help").output
    assert "Examples:" in output
    example = output.split("Examples:")[1].split("Options")[0]
    assert f"gspen-ner {' '.join(verb)}" in example


@pytest.mark.parametrize("verb", [*((verb,) for verb in VERBS if verb != "recipes"), ("data", "describe")])
def test_examples_use_options_that_exist(verb):
    output = run(*verb, "--help").output
    example, options = output.split("Examples:")[1].split("Options", 1)
    own = re.sub(r"torchrun .*? gspen-ner", "gspen-ner", example)
    assert set(re.findall(r"--[a-z-]+", own)) <= set(re.findall(r"--[a-z-]+", options))


def test_without_arguments_the_commands_are_listed():
    output = gspen_ner().output
    for verb in (*VERBS, "data"):
        assert re.search(rf"\b{verb}\b", output)


class TestRecipes:
    def test_are_listed_with_their_descriptions(self):
        output = run("recipes").output
        for name, description in recipe_names().items():
            assert name in output
            assert description.split()[0] in output
        assert "quickstart" in output


class TestTrain:
    def test_shows_the_results_and_the_next_commands(self, tmp_path):
        recipe = write_recipe(tmp_path / "mine.yaml")
        output = run("train", recipe, "--output", tmp_path / "run").output
        assert "base, epoch 2/2: loss" in output
        assert "mine: F1 of whole entities" in output
        assert "the global term fixed" in output
        assert f"gspen-ner predict {tmp_path / 'run'} -" in output

    def test_the_default_output_is_a_folder_in_runs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_recipe(tmp_path / "mine.yaml", system="unary", base_training={"epochs": 1})
        run("train", "mine.yaml")
        assert (tmp_path / "runs" / "mine" / "model" / "config.json").is_file()

    def test_set_changes_entries(self, tmp_path):
        recipe = write_recipe(tmp_path / "mine.yaml")
        changes = ("system=unary", "base_training.epochs=1", "data.test=null", "terms=[]", "seed=9")
        options = [part for change in changes for part in ("--set", change)]
        run("train", recipe, "--output", tmp_path / "run", *options)
        results = json.loads((tmp_path / "run" / "results.json").read_text())
        assert (results["seed"], results["system"], results["test"]) == (9, "unary", None)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("seed", "--set seed: expected KEY=VALUE"),
            ("=3", "--set =3: expected KEY=VALUE"),
            ("sede=3", "sede: unknown key; did you mean seed?"),
            ("base_training.epoch=3", "did you mean base_training.epochs?"),
            ("base_training.epochs=none", "base_training.epochs"),
            ("base_training.epochs=0", "base_training.epochs"),
            ("seed=[", "the value is not YAML"),
            ("seed.deep=1", "--set seed.deep=1"),
            ("terms.7.name=document", "--set terms.7.name=document"),
            ("system=crf", "system"),
            ("terms=[]", "system gspen needs at least one"),
            ("term_training.scores.folds=1", "term_training.scores.name: missing"),
            (
                "term_training.folds=1",
                "term_training.scores.folds: Input should be greater than or equal to 2",
            ),
        ],
    )
    def test_an_invalid_set_is_refused_before_anything_is_written(self, change, message, tmp_path):
        recipe = write_recipe(tmp_path / "mine.yaml")
        refused("train", recipe, "--set", change, "--output", tmp_path / "run", message=message)
        assert not (tmp_path / "run").exists()

    def test_an_unknown_recipe_is_refused_with_a_suggestion(self, tmp_path):
        refused("train", "quickstrat", "--output", tmp_path / "run", message="did you mean 'quickstart'?")
        refused("train", tmp_path / "none.yaml", "--output", tmp_path / "run", message="no such recipe file")
        assert not (tmp_path / "run").exists()

    def test_missing_data_are_named(self, tmp_path, monkeypatch):
        monkeypatch.delenv("GSPEN_DATA", raising=False)
        recipe = write_recipe(tmp_path / "mine.yaml")
        for source, message in (
            ("none.conll", "none.conll: no such file"),
            ("${GSPEN_DATA}/x", "GSPEN_DATA"),
        ):
            output = tmp_path / source[:4].strip("$")
            refused("train", recipe, "--set", f"data.dev={source}", "--output", output, message=message)

    def test_an_output_that_cannot_be_a_folder_is_refused(self, tmp_path):
        recipe = write_recipe(tmp_path / "mine.yaml")
        refused("train", recipe, "--output", recipe, message="is a file", code=2)
        refused("train", recipe, "--output", recipe / "run", message="Not a directory")

    def test_an_interrupted_run_names_the_command_that_resumes_it(self, tmp_path, monkeypatch):
        def interrupt(*args, **kwargs):
            raise KeyboardInterrupt

        recipe = write_recipe(tmp_path / "mine.yaml", base_training={"epochs": 1})
        with monkeypatch.context() as patch:
            patch.setattr(StageTrainer, "training_step", interrupt)
            result = gspen_ner("train", recipe, "--set", "system=unary", "--output", tmp_path / "run")
        assert result.exit_code == 130
        (command,) = re.findall(r"resume with: gspen-ner (.*)", result.output)
        assert command.endswith("--resume")
        run(*shlex.split(command))


class TestEvaluate:
    def test_shows_both_systems_and_what_changed(self, trained):
        output = run("evaluate", trained, "newswire:5:3").output
        assert "newswire:5:3: whole entities" in output
        for words in (
            "CRF + GSPEN",
            "all (micro)",
            "PER",
            "sentences without an error",
            "the global term fixed",
        ):
            assert words in output

    def test_a_source_is_shown_as_it_was_typed(self, trained):
        assert "newswire:100:1: whole" in run("evaluate", trained, "newswire:100:1").output, "no emoji"

    def test_json_holds_the_figures_of_the_run(self, trained, tmp_path):
        run("evaluate", trained, "newswire:5:3", "--json", tmp_path / "scores.json")
        scores = json.loads((tmp_path / "scores.json").read_text())
        assert scores == json.loads((trained / "results.json").read_text())["test"]

    def test_a_run_and_its_model_are_the_same(self, trained, corpus):
        outputs = [run("evaluate", folder, corpus).output for folder in (trained, trained / "model")]
        assert outputs[0] == outputs[1]

    def test_a_file_in_any_format_gives_the_same_figures(self, trained, corpus, tmp_path):
        sentences = generate_newswire(3, seed=8)
        lines = [json.dumps({"tokens": s.tokens, "tags": s.tags, "document": s.document}) for s in sentences]
        (tmp_path / "gold.jsonl").write_text("\n".join(lines))
        columns = "\n".join(
            f"x {line.replace(' ', ' y ')} z" if line else "" for line in corpus.read_text().split("\n")
        ).replace("x -DOCSTART-", "-DOCSTART- x")
        (tmp_path / "columns.txt").write_text(columns)
        sources = [
            ("newswire:3:8",),
            (corpus,),
            (tmp_path / "gold.jsonl",),
            (tmp_path / "columns.txt", "--token-column", "1", "--tag-column", "-2"),
        ]
        scores = []
        for number, source in enumerate(sources):
            run("evaluate", trained, *source, "--json", tmp_path / f"{number}.json")
            scores.append(json.loads((tmp_path / f"{number}.json").read_text()))
        assert scores[0]["full"]["score"]["micro"]["f1"] > 0
        assert all(score == scores[0] for score in scores)

    def test_types_that_the_model_does_not_know_are_named(self, trained, tmp_path):
        (tmp_path / "gold.conll").write_text("Rome B-PLANET\nwon O\n")
        output = run("evaluate", trained, tmp_path / "gold.conll").output
        assert "types the model does not know count as missed: PLANET" in output

    def test_repaired_tags_are_counted_or_refused(self, trained, tmp_path):
        (tmp_path / "gold.conll").write_text("Rome B-LOC\nwon O\n\nthe O\nGraz I-LOC\n")
        assert "repaired the tags of 1 sentences" in run("evaluate", trained, tmp_path / "gold.conll").output
        refused(
            "evaluate",
            trained,
            tmp_path / "gold.conll",
            "--strict",
            message="gold.conll:4: the tags of this sentence",
        )

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ("none.conll", "none.conll: no such file"),
            ("newswire:x:1", "newswire:x:1: expected newswire:DOCUMENTS"),
            ("newswire:0:1", "no sentences to evaluate on"),
        ],
    )
    def test_bad_data_are_refused(self, data, message, trained, tmp_path):
        refused("evaluate", trained, data, "--json", tmp_path / "scores.json", message=message)
        assert not list(tmp_path.iterdir())

    def test_a_folder_without_a_model_is_refused(self, corpus, tmp_path):
        for folder in (tmp_path / "none", tmp_path):
            refused("evaluate", folder, corpus, message=f"{folder}: no model here")

    def test_a_torn_model_is_refused(self, trained, corpus, tmp_path):
        for name, content in content_of(trained / "model").items():
            (tmp_path / name).write_bytes(
                content[: len(content) // 2] if name.suffix == ".safetensors" else content
            )
        refused("evaluate", tmp_path, corpus, message="not a model that can be read")

    def test_an_output_file_in_a_missing_folder_is_refused_at_once(self, trained, tmp_path):
        file = tmp_path / "none" / "scores.json"
        refused("evaluate", trained, "newswire:1:1", "--json", file, message="is not a directory", code=2)
        refused("evaluate", trained, "newswire:1:1", "--json", tmp_path, message="is a directory", code=2)


class Page(HTMLParser):
    """What a browser would make of a page: its tags and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


class TestPredict:
    def test_columns_are_token_probability_and_tag(self, trained):
        lines = run("predict", trained, "-", text=TEXT).output.splitlines()
        assert [line for line in lines if line.startswith("-DOCSTART-")] == ["-DOCSTART- _ O"] * 2
        columns = [line.split() for line in lines if line and not line.startswith("-DOCSTART-")]
        assert [token for token, _, _ in columns][:6] == ["Ms.", "Anna", "Halden", "spoke", "in", "Graz"]
        for _, probability, tag in columns:
            assert probability == "_" if tag == "O" else 0 < float(probability) <= 1
        assert any(tag != "O" for _, _, tag in columns)

    def test_json_lines_contain_the_positions_of_entities(self, trained):
        predicted = entries(run("predict", trained, "-", "--format", "jsonl", text=TEXT).output)
        assert [entry["document"] for entry in predicted] == [0, 0, 1]
        for entry in predicted:
            assert len(entry["tokens"]) == len(entry["tags"])
            for entity in entry["entities"]:
                assert entity["text"] == " ".join(entry["tokens"][entity["start"] : entity["end"]])
                assert entry["tags"][entity["start"]] == f"B-{entity['type']}"
                assert 0 < entity["probability"] <= 1
                assert isinstance(entity["changed"], bool)
            assert "k_best" not in entry

    def test_k_best_come_with_falling_probabilities(self, trained):
        predicted = entries(
            run("predict", trained, "-", "--format", "jsonl", "--k-best", 4, text=TEXT).output
        )
        for entry in predicted:
            chances = [labelling["probability"] for labelling in entry["k_best"]]
            assert len(chances) == 4
            assert chances == sorted(chances, reverse=True)
            assert sum(chances) <= 1 + 1e-6
            best = [{name: e[name] for name in ("start", "end", "type", "text")} for e in entry["entities"]]
            assert entry["k_best"][0]["entities"] == best

    def test_there_may_be_fewer_than_k(self, trained):
        (entry,) = entries(
            run("predict", trained, "-", "--format", "jsonl", "--k-best", 50, text="Graz\n").output
        )
        labellings = {json.dumps(labelling["entities"]) for labelling in entry["k_best"]}
        assert len(labellings) == len(entry["k_best"]) == 1 + len(Tagger.load(trained).labels.types)
        assert sum(labelling["probability"] for labelling in entry["k_best"]) == pytest.approx(1, abs=1e-4)

    def test_a_page_shows_entities_and_escapes_what_users_type(self, trained, tmp_path):
        text = TEXT + "\n<script>alert('x')</script> & Graz <b>won</b>\n"
        jsonl = json.dumps({"tokens": ["<script>alert(1)</script>", "Graz", "&amp;", '"><img src=x>']})
        for source, file_format in ((text, "text"), (jsonl, "jsonl")):
            written = run(
                "predict", trained, "-", "--format", "html", "--input", file_format, text=source
            ).output
            page = Page(written)
            assert not {"script", "b", "img"} & set(page.tags)
            assert "script" in page.text
            assert "<script" not in written
        assert "&amp;" in page.text, "as it was typed"
        marks = Page(run("predict", trained, "-", "--format", "html", text=TEXT).output)
        assert "mark" in marks.tags
        assert "Halden" in marks.text

    @pytest.mark.parametrize(
        ("name", "begins"),
        [("x.html", "<!doctype html>"), ("x.jsonl", '{"tokens"'), ("x.conll", "-DOCSTART-")],
    )
    def test_the_format_follows_the_name_of_the_output(self, name, begins, trained, tmp_path):
        result = run("predict", trained, "-", "--output", tmp_path / name, text=TEXT)
        assert result.output == ""
        assert (tmp_path / name).read_text().startswith(begins)
        assert [file.name for file in tmp_path.iterdir()] == [name]

    def test_a_given_format_overrides_the_name_of_the_output(self, trained, tmp_path):
        run("predict", trained, "-", "--output", tmp_path / "x.html", "--format", "jsonl", text=TEXT)
        assert (tmp_path / "x.html").read_text().startswith('{"tokens"')

    def test_an_old_output_is_replaced(self, trained, tmp_path):
        (tmp_path / "x.conll").write_text("old")
        run("predict", trained, "-", "--output", tmp_path / "x.conll", text=TEXT)
        assert "old" not in (tmp_path / "x.conll").read_text()

    def test_files_and_standard_input_are_the_same(self, trained, tmp_path):
        (tmp_path / "news.txt").write_text(TEXT)
        assert (
            run("predict", trained, tmp_path / "news.txt").output
            == run("predict", trained, "-", text=TEXT).output
        )

    def test_every_input_format_gives_the_same_tags(self, trained, corpus, tmp_path):
        sentences = generate_newswire(3, seed=8)
        lines = [json.dumps({"tokens": s.tokens, "document": s.document}) for s in sentences]
        (tmp_path / "bare.jsonl").write_text("\n".join(lines))
        bare = re.sub(r" \S+$", "", corpus.read_text(), flags=re.MULTILINE)
        (tmp_path / "bare.conll").write_text(bare)
        (tmp_path / "turned.conll").write_text(
            re.sub(r"^(?!-DOCSTART-)(\S+) (\S+)$", r"\2 \1", corpus.read_text(), flags=re.MULTILINE)
        )
        results = [
            run("predict", trained, corpus),
            run("predict", trained, "-", text=corpus.read_text()),
            run("predict", trained, tmp_path / "bare.jsonl"),
            run("predict", trained, tmp_path / "bare.conll"),
            run("predict", trained, tmp_path / "turned.conll", "--token-column", 1),
            run("predict", trained, "-", "--input", "jsonl", text=(tmp_path / "bare.jsonl").read_text()),
        ]
        assert len({result.output for result in results}) == 1
        assert results[0].output.count("-DOCSTART-") == 3

    def test_json_lines_on_standard_input_are_recognised(self, trained):
        source = json.dumps({"tokens": ["Graz", "won"]})
        assert entries(run("predict", trained, "-", "--format", "jsonl", text=source).output)[0][
            "tokens"
        ] == ["Graz", "won"]

    def test_gold_tags_are_ignored(self, trained, corpus):
        other = re.sub(r" [BI]-\w+$", " O", corpus.read_text(), flags=re.MULTILINE)
        assert run("predict", trained, "-", text=other).output == run("predict", trained, corpus).output

    @pytest.mark.parametrize("name", ["own.conll", "own.jsonl"])
    def test_evaluated_against_itself_a_prediction_is_perfect(self, name, trained, corpus, tmp_path):
        run("predict", trained, corpus, "--output", tmp_path / name)
        run("evaluate", trained, tmp_path / name, "--strict", "--json", tmp_path / "scores.json")
        scores = json.loads((tmp_path / "scores.json").read_text())
        assert scores["full"]["score"]["micro"]["f1"] == 1
        assert scores["full"]["score"]["micro"]["support"] > 5
        assert scores["full"]["exact_match"] == 1
        read = read_tagged_file(tmp_path / name)
        assert [s.tokens for s in read.sentences] == [s.tokens for s in generate_newswire(3, seed=8)]

    def test_columns_refuse_tokens_with_blanks(self, trained, tmp_path):
        source, file = json.dumps({"tokens": ["New York", "won"]}), tmp_path / "x.conll"
        arguments = ("predict", trained, "-", "--input", "jsonl", "--output", file)
        refused(*arguments, message="columns cannot hold the token 'New York'", text=source)
        assert not file.exists()

    @pytest.mark.parametrize("text", ["", "\n\n  \n"])
    def test_an_empty_input_is_accepted(self, text, trained):
        assert run("predict", trained, "-", text=text).output == ""
        assert run("predict", trained, "-", "--format", "jsonl", text=text).output == ""
        assert "No sentences" in run("predict", trained, "-", "--format", "html", text=text).output

    def test_any_text_can_be_tagged(self, trained):
        text = "Zürich 東京 🎉 \u0000 \u00a0 e\u0301\u200b ‮ " + "x" * 3000 + " $%&/()=?`'\"\\\n" + "a " * 700
        (first, second) = entries(run("predict", trained, "-", "--format", "jsonl", text=text).output)
        assert "".join(first["tokens"]) == "".join(text.split("\n")[0].split())
        assert len(second["tokens"]) == 700

    @pytest.mark.parametrize(
        ("options", "message", "code"),
        [
            (("--k-best", 2), "--k-best needs --format jsonl, got conll", 1),
            (("--k-best", 2, "--format", "html"), "--k-best needs --format jsonl, got html", 1),
            (("--k-best", -1), "--k-best", 2),
            (("--format", "xml"), "--format", 2),
            (("--input", "xml"), "--input", 2),
            (("--input", "jsonl"), "<standard input>:1: not JSON", 1),
            (("--input", "conll"), "<standard input>:", 1),
        ],
    )
    def test_bad_options_are_refused_without_an_output(self, options, message, code, trained, tmp_path):
        output = () if "--k-best" in options else ("--output", tmp_path / "x.conll")
        refused("predict", trained, "-", *options, *output, message=message, code=code, text=TEXT)
        assert not list(tmp_path.iterdir())

    def test_a_missing_model_or_input_leaves_no_output(self, trained, tmp_path):
        output = ("--output", tmp_path / "x.conll")
        refused("predict", tmp_path / "none", "-", *output, message="none: no model here", text=TEXT)
        refused("predict", trained, tmp_path / "none.txt", *output, message="none.txt: no such file")
        refused("predict", trained, tmp_path, *output, message="a folder, expected a file")
        assert not list(tmp_path.iterdir())

    def test_text_that_is_not_utf8_is_refused(self, trained, tmp_path):
        (tmp_path / "latin.txt").write_bytes("Zürich won".encode("latin-1"))
        refused("predict", trained, tmp_path / "latin.txt", message="not UTF-8 text")

    def test_an_output_that_cannot_be_written_is_refused_at_once(self, trained, tmp_path):
        file = tmp_path / "none" / "x.conll"
        refused("predict", trained, "-", "--output", file, message="is not a directory", code=2, text=TEXT)
        refused("predict", trained, "-", "--output", tmp_path, message="is a directory", code=2, text=TEXT)
        assert not list(tmp_path.iterdir())
        assert not tmp_path.with_name(tmp_path.name + ".new").exists()

    def test_an_error_while_writing_leaves_the_old_output(self, trained, tmp_path, monkeypatch):
        (tmp_path / "x.conll").write_text("old")

        def full(*args, **kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        refused("predict", trained, "-", "--output", tmp_path / "x.conll", message="No space left", text=TEXT)
        assert content_of(tmp_path) == {Path("x.conll"): b"old"}


class TestDescribe:
    def test_counts_what_there_is(self, tmp_path):
        (tmp_path / "x.conll").write_text(
            "-DOCSTART- O\n\nRome B-LOC\nbeat O\nNew B-LOC\nYork I-LOC\n\nit O\n"
        )
        output = run("data", "describe", tmp_path / "x.conll", "--json", tmp_path / "x.json").output
        assert "x.conll: 2 sentences, 5 tokens, documents: 1, scheme BIO" in re.sub(r"\s+", " ", output)
        counts = json.loads((tmp_path / "x.json").read_text())
        assert (counts["sentences"], counts["tokens"], counts["documents"]) == (2, 5, 1)
        assert counts["types"]["LOC"]["entities"] == 2
        assert counts["types"]["LOC"]["longest"] == 2

    def test_a_source_is_shown_as_it_was_typed(self):
        assert run("data", "describe", "newswire:100:7").output.startswith("newswire:100:7: ")

    def test_types_are_shown_as_they_were_typed(self, tmp_path):
        (tmp_path / "x.conll").write_text("Rome B-[red]\nwon B-[/b]\nGraz B-:smile:\n")
        output = run("data", "describe", tmp_path / "x.conll").output
        for markup in ("[red]", "[/b]", ":smile:"):
            assert markup in output

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("Rome LOC\n", "x.conll:1: 'LOC' is not a tag"),
            ("Rome B-LOC\nwon\n", "x.conll:2: expected 2 columns"),
        ],
    )
    def test_malformed_files_are_refused_with_their_line(self, content, message, tmp_path):
        (tmp_path / "x.conll").write_text(content)
        refused("data", "describe", tmp_path / "x.conll", "--json", tmp_path / "x.json", message=message)
        assert not (tmp_path / "x.json").exists()

    def test_missing_files_are_refused(self, tmp_path):
        refused("data", "describe", tmp_path / "none", message="none: no such file")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_works_outside_a_clone(tmp_path):
    def python(*arguments, cwd=tmp_path, path=None):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYTHONPATH": str(path)} if path else {}
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "wheel", cwd=ROOT)
    (wheel,) = (tmp_path / "wheel").iterdir()
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
        assert not [name for name in archive.namelist() if name.startswith("tests/")]
    where = python("-c", "import gspen_ner; print(gspen_ner.__file__)", path=installed)
    assert Path(where.strip()).is_relative_to(installed)
    assert "quickstart" in python("-m", "gspen_ner.cli", "recipes", path=installed)
    assert (installed / "gspen_ner" / "report" / "template" / "page.html").is_file()
    tiny = (
        "data.train=newswire:6:1", "data.dev=newswire:2:2", "data.test=newswire:2:3", "scorer.word_size=12",
        "scorer.hidden=16", "scorer.projection=16", "base_training.epochs=1", "term_training.epochs=1",
    )  # fmt: skip
    options = [part for change in tiny for part in ("--set", change)]
    output = python("-m", "gspen_ner.cli", "train", "quickstart", *options, path=installed)
    assert "quickstart: F1 of whole entities" in output
    assert (tmp_path / "runs" / "quickstart" / "results.json").is_file()
    output = python("-m", "gspen_ner.cli", "evaluate", "runs/quickstart", "newswire:2:4", path=installed)
    assert "all (micro)" in output
