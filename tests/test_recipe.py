"""Recipes: what is read, what is inherited, what is overridden, and what is refused by name."""

import contextlib

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gspen_ner.recipe import (
    Experiment,
    FlairRecipe,
    Recipe,
    expand,
    find_recipe,
    load_recipe,
    recipe_names,
)

SMALL = "system: struct\ndata: {train: a.txt, dev: b.txt}\n"


@pytest.fixture
def written(tmp_path):
    """Writes a recipe, returns its file."""

    def write(text, name="mine.yaml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


def quickstart(*overrides):
    return load_recipe("quickstart", overrides)


def built_in(name):
    """A built-in recipe, with an encoder if it needs to be told one."""
    return load_recipe(name, ["encoder=some/encoder"] if "transformer" in name else [])


@pytest.mark.parametrize("name", sorted(recipe_names()))
def test_every_built_in_recipe_loads_without_any_data(name, monkeypatch):
    monkeypatch.delenv("GSPEN_DATA", raising=False)
    recipe = built_in(name)
    assert recipe.system == "struct" or (recipe.system == "gspen" and recipe.terms)
    assert recipe.description == recipe_names()[name]
    assert 20 < len(recipe.description) < 120


def test_the_built_in_recipes_are_these():
    assert {
        "quickstart",
        "conll03_fast",
        "conll03_ma_hovy",
        "wnut17",
        "crossner",
    } <= set(recipe_names())


@pytest.mark.parametrize("name", sorted(recipe_names()))
def test_paths_of_built_in_recipes_lie_in_the_data_folder_or_need_none(name, monkeypatch):
    monkeypatch.setenv("GSPEN_DATA", "/data")
    recipe = built_in(name)
    paths = [recipe.data.train, recipe.data.dev, recipe.data.test]
    if isinstance(recipe, FlairRecipe):
        paths += [entry.file for entry in recipe.embeddings if entry.name == "words"]
    elif isinstance(recipe, Recipe):
        paths.append(recipe.scorer.word_vectors)
    for path in paths:
        assert path is None or expand(path).startswith(("/data/", "newswire:"))


def test_quickstart_needs_no_data_at_all():
    recipe = quickstart()
    assert all(p.startswith("newswire:") for p in (recipe.data.train, recipe.data.dev, recipe.data.test))
    assert recipe.scorer.word_vectors is None


def test_the_papers_recipe_is_its_appendix():
    recipe = load_recipe("conll03_ma_hovy")
    assert (recipe.system, recipe.trials, recipe.drop_worst) == ("gspen", 6, 1)
    for training, batch_size in ((recipe.base_training, 16), (recipe.term_training, 32)):
        assert (training.optimizer, training.learning_rate) == ("sgd", 0.01)
        assert (training.schedule, training.decay) == ("inverse_time", 0.05)
        assert (training.batch_size, training.epochs, training.patience) == (batch_size, 200, None)
    scorer = recipe.scorer
    assert (scorer.transitions, scorer.hidden, scorer.word_size) == ("bigram", 256, 100)
    assert (scorer.filters, scorer.width, scorer.character_size) == (30, 3, 30)
    assert (scorer.input_dropout, scorer.output_dropout) == (0.5511, 0.5)
    (term,) = recipe.terms
    assert (term.name, term.dropout) == ("padded_mlp", 0.75)
    assert recipe.term_training.freeze == "base"
    assert (recipe.inference.tolerance, recipe.inference.stop) == (0.1, "change")


@pytest.mark.parametrize("name", sorted(recipe_names()))
def test_a_recipe_written_out_is_the_same_recipe(name, written):
    recipe = built_in(name)
    text = recipe.as_yaml()
    assert load_recipe(written(text)) == recipe
    assert "extends" not in yaml.safe_load(text)
    assert "max_steps" in text  # every entry, given or not
    assert "temperature" in text


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])),  # PyYAML itself loses \x85
    st.floats(min_value=0, allow_nan=False),
    st.integers(min_value=0),
)
def test_any_values_survive_being_written_out(tmp_path_factory, text, number, seed):
    recipe = Recipe.model_validate(
        {
            "system": "struct",
            "description": text,
            "seed": seed,
            "data": {"train": text, "dev": "yes"},
            "inference": {"temperature": number},
        }
    )
    file = tmp_path_factory.mktemp("recipe") / "written.yaml"
    file.write_text(recipe.as_yaml(), encoding="utf-8")
    assert load_recipe(file) == recipe


def test_defaults_are_filled_in(written):
    recipe = load_recipe(written(SMALL))
    assert (recipe.seed, recipe.trials, recipe.scorer.hidden, recipe.data.test) == (1, 1, 256, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sead: 3", r"^mine\.yaml: sead: unknown key; did you mean seed\?$"),
        (
            "base_training: {epoch: 3}",
            r"base_training\.epoch: unknown key; did you mean base_training\.epochs",
        ),
        ("data: {trian: x}", r"data\.trian: unknown key; did you mean data\.train\?"),
        ("terms: [{name: document, widht: 3}]", r"terms\.0\.widht: unknown key; did you mean terms\.width\?"),
        ("terms: [{name: document, width: 3}]", r"terms\.0\.width: unknown key$"),
        ("terms: [{name: sharpness, width: 3}]", r"^mine\.yaml: terms\.0\.width: unknown key$"),
        ("task: ocr", r"^mine\.yaml: task: expected a tagger's recipe, .* recipes\.ocr .*mine\.yaml$"),
        ("document: {}", r"^mine\.yaml: document: unknown key$"),
        ("scorer: {convolution: 3}", r"scorer\.convolution: unknown key"),
        ("zzzzzzzz: 3", r"^mine\.yaml: zzzzzzzz: unknown key$"),
        ("1: 3", r"mine\.yaml: 1: Keys should be strings"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(written, text, message):
    entries = {**yaml.safe_load(SMALL), **yaml.safe_load(text)}
    entries["data"] = {"train": "a", "dev": "b", **entries["data"]}
    with pytest.raises(ValueError, match=message):
        load_recipe(written(yaml.safe_dump(entries)))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=one", r"quickstart\.yaml: seed: .*integer.*got 'one'"),
        ("seed=-1", r"seed: .*greater than or equal to 0, got -1"),
        ("seed=", r"seed: .*got None"),
        ("base_training.epochs=0", r"base_training\.epochs: .*got 0"),
        ("base_training.epochs=2.5", r"base_training\.epochs: .*got 2\.5"),
        ("base_training.learning_rate=fast", r"base_training\.learning_rate: .*number.*got 'fast'"),
        ("base_training.learning_rate=0", r"base_training\.learning_rate: .*got 0"),
        ("base_training.learning_rate=.nan", r"base_training\.learning_rate: .*got nan"),
        ("base_training.optimizer=lion", r"base_training\.optimizer: .*'adam' or 'sgd', got 'lion'"),
        ("scorer.input_dropout=1", r"scorer\.input_dropout: .*less than 1, got 1"),
        ("scorer.transitions=none", r"scorer\.transitions: .*'shared' or 'bigram', got 'none'"),
        ("data.fraction=0", r"data\.fraction: .*got 0"),
        ("data=newswire", r"data: .*got 'newswire'"),
        ("data.strict=perhaps", r"data\.strict: .*got 'perhaps'"),
        ("system=crf", r"system: .*'unary', 'struct', 'spen' or 'gspen', got 'crf'"),
        ("terms=document", r"terms: .*got 'document'"),
        ("terms.0.name=documents", r"terms\.0: .*'documents'.*'document'"),
        ("terms=[{name: convolution, width: wide}]", r"terms\.0\.width: .*got 'wide'"),
        (
            "inference.solver={name: frank_wolfe, oracle: delphi}",
            r"inference\.solver\.oracle: .*got 'delphi'",
        ),
    ],
)
def test_an_ill_typed_value_is_named_by_its_key(override, message):
    with pytest.raises(ValueError, match=message):
        quickstart(override)


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(ValueError, match=r"(?s)seed: .*\n.*epochs: .*\n.*nonsense: unknown key"):
        quickstart("seed=x", "base_training.epochs=x", "nonsense=1")


def test_what_is_missing_is_named(written):
    with pytest.raises(ValueError, match=r"mine\.yaml: data: missing"):
        load_recipe(written("seed: 1"))
    with pytest.raises(ValueError, match=r"mine\.yaml: data\.dev: missing"):
        load_recipe(written("system: struct\ndata: {train: a}"))


@pytest.mark.parametrize(
    ("override", "where", "value"),
    [
        ("seed=7", "seed", 7),
        ("base_training.epochs=3", "base_training.epochs", 3),
        ("base_training.learning_rate=1e-3", "base_training.learning_rate", 0.001),
        ("base_training.learning_rate=1.5e-3", "base_training.learning_rate", 0.0015),
        ("base_training.learning_rate=1", "base_training.learning_rate", 1.0),
        ("base_training.patience=4", "base_training.patience", 4),
        ("base_training.loggers=[tensorboard, wandb]", "base_training.loggers", ("tensorboard", "wandb")),
        ("data.strict=true", "data.strict", True),
        ("data.test=null", "data.test", None),
        ("data.train=${HOME}/a=b.txt", "data.train", "${HOME}/a=b.txt"),
        ("data.train=newswire:7:1", "data.train", "newswire:7:1"),
        ("data.token_column=words", "data.token_column", "words"),
        ("data.tag_column=3", "data.tag_column", 3),
        ("description='a: b'", "description", "a: b"),
        ("inference={max_steps: 3}", "inference.max_steps", 3),
        ("inference.solver.name=frank_wolfe", "inference.solver.schedule", "line_search"),
        ("terms.0.name=convolution", "terms.0.width", 5),
        ("terms.0={name: convolution, width: 7}", "terms.0.width", 7),
        ("terms=[{name: document}, {name: padded_mlp}]", "terms.1.hidden", 500),
    ],
)
def test_an_entry_can_be_set(override, where, value):
    place = quickstart(override)
    for key in where.split("."):
        place = place[int(key)] if key.isdigit() else getattr(place, key)
    assert place == value
    assert type(place) is type(value)


def test_only_what_is_set_changes():
    assert quickstart("base_training.epochs=5", "seed=1") == quickstart()
    changed = quickstart("base_training.epochs=9")
    assert changed.base_training.learning_rate == quickstart().base_training.learning_rate
    assert changed.term_training == quickstart().term_training


def test_the_last_of_several_settings_counts():
    assert quickstart("seed=3", "seed=4").seed == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", r"--set seed: expected KEY=VALUE"),
        ("", r"--set : expected KEY=VALUE"),
        ("=3", r"--set =3: expected KEY=VALUE"),
        ("seed=[1", r"--set seed=\[1: the value is not YAML"),
        ("seed=!!bool x", r"--set seed=!!bool x: the value is not YAML"),
        ("seed=2001-99-99", r"--set seed=2001-99-99: the value is not YAML"),
        ("seed.x=1", r"--set seed\.x=1: the recipe has no seed\.x"),
        ("terms.9.hidden=1", r"--set terms\.9\.hidden=1: the recipe has no terms\.9\.hidden"),
        ("terms.1=document", r"the recipe has no terms\.1"),
        ("terms.hidden=1", r"the recipe has no terms\.hidden"),
        ("terms.².hidden=1", r"the recipe has no terms\.²\.hidden"),
        ("nonsense=1", r"nonsense: unknown key"),
        ("base_training.nonsense.more=1", r"base_training\.nonsense: unknown key"),
        ("0=3", r"0: Keys should be strings"),
    ],
)
def test_a_setting_that_cannot_be_made_is_refused(override, message):
    with pytest.raises(ValueError, match=message):
        quickstart(override)


def test_a_recipe_overrides_its_parent_entry_by_entry(written):
    child = load_recipe(written("extends: quickstart\nbase_training: {epochs: 9}\ndata: {test: null}\n"))
    parent = quickstart()
    assert child.base_training == parent.base_training.model_copy(update={"epochs": 9})
    assert child.data == parent.data.model_copy(update={"test": None})
    assert child.terms == parent.terms


def test_terms_are_replaced_and_not_merged(written):
    child = load_recipe(written("extends: quickstart\nterms: [{name: convolution}]\n"))
    assert [term.name for term in child.terms] == ["convolution"]


def test_recipes_extend_each_other_over_generations_and_folders(written):
    written(SMALL + "seed: 5\ntrials: 2\n", "grand.yaml")
    written("extends: ../grand\nseed: 6\n", "inner/parent.yaml")
    child = load_recipe(written("extends: parent\ndata: {dev: c.txt}\n", "inner/child.yaml"))
    assert (child.seed, child.trials, child.data.train, child.data.dev) == (6, 2, "a.txt", "c.txt")


def test_a_parent_may_be_named_with_its_suffix(written):
    parent = written(SMALL + "seed: 8\n", "parent.yaml")
    assert load_recipe(written(f"extends: {parent}\n")).seed == 8


def test_a_recipe_beside_goes_before_a_built_in_one(written):
    written(SMALL + "seed: 77\n", "quickstart.yaml")
    assert load_recipe(written("extends: quickstart\n")).seed == 77


def test_an_unknown_parent_is_named(written):
    with pytest.raises(ValueError, match=r"no recipe 'quickstrat'; did you mean 'quickstart'\?"):
        load_recipe(written("extends: quickstrat\n"))


@pytest.mark.parametrize(
    "files",
    [
        {"a": "a"},
        {"a": "b", "b": "a"},
        {"a": "b", "b": "c", "c": "b"},
        {"folder/a": "../folder/a"},
    ],
)
def test_a_circle_of_recipes_is_refused(written, files):
    paths = [written(f"extends: {parent}\n{SMALL}", f"{name}.yaml") for name, parent in files.items()]
    with pytest.raises(ValueError, match="extend each other in a circle"):
        load_recipe(paths[0])


def test_one_parent_may_have_several_children(written):
    written(SMALL, "parent.yaml")
    for name in "ab":
        assert load_recipe(written("extends: parent\n", f"{name}.yaml")).data.train == "a.txt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trials: 3\ndrop_worst: 3", r"mine\.yaml: drop_worst: 3 of 3 trials would leave none"),
        ("drop_worst: 1", r"drop_worst: 1 of 1 trials"),
        ("term_training: {folds: 1}", r"term_training\.scores\.folds: .* equal to 2, got 1"),
        ("term_training: {scores: {name: cross_fit, folds: 1}}", r"\.scores\.folds: .* equal to 2, got 1"),
        (
            "term_training: {folds: 2, dropout_draws: 2}",
            r"term_training: give dropout_draws or folds, not both",
        ),
        ("term_training: {freeze: none, dropout_draws: 2}", r"scores: dropout_draws needs freeze: base"),
        ("term_training: {freeze: none, folds: 2}", r"scores: cross_fit needs freeze: base"),
        (
            "term_training: {freeze: none, scores: {name: cross_fit, folds: 2}}",
            r"scores: cross_fit needs freeze: base",
        ),
        ("term_training: {folds_of: runs/a}", r"term_training: folds_of needs folds"),
        ("system: gspen", r"terms: system gspen needs at least one"),
        ("system: spen", r"terms: system spen needs at least one"),
        ("base: runs/a\ntrials: 2", r"base: .*train base models of their own"),
    ],
)
def test_entries_that_do_not_go_together_are_refused(written, text, message):
    data = "data: {train: a, dev: b}\n"
    system = "" if "system" in text else "system: struct\n"
    with pytest.raises(ValueError, match=message):
        load_recipe(written(data + system + text))


@pytest.mark.parametrize(
    "text",
    [
        "trials: 3\ndrop_worst: 2",
        "term_training: {folds: 2}",
        "term_training: {freeze: none, base_learning_rate: 0.1}",
        "base: runs/a\nterm_training: {dropout_draws: 2}",
        "base: runs/a\nterm_training: {folds: 2}",
        "system: unary",
    ],
)
def test_entries_that_do_go_together_are_accepted(written, text):
    load_recipe(written(yaml.safe_dump({**yaml.safe_load(SMALL), **yaml.safe_load(text)})))


def test_a_recipe_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="frozen"):
        quickstart().seed = 3


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "3", "~", "[]", "---\n"])
def test_a_file_without_entries_is_refused(written, text):
    with pytest.raises(ValueError, match=r"mine\.yaml: expected entries such as 'seed: 1', got \w+"):
        load_recipe(written(text))


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: b: c",
        "\tseed: 1",
        b"\xff\xfe\xff",
        "seed: !!python/object/apply:os.getcwd []",
        "? [a]\n: b",
        "a: 1\n---\nb: 2",
        "a: *nothing",
        "[" * 5000,
        "seed: 2001-99-99",
        "a: !!int ''",
        "a: !!bool perhaps",
        "a: !!timestamp now",
        "\x07",
        "seed: " + "9" * 5000,
    ],
)
def test_a_file_that_is_not_yaml_is_named(written, text):
    with pytest.raises(ValueError, match=r"mine\.yaml: not YAML: "):
        load_recipe(written(text))


def test_recipes_that_do_not_exist():
    with pytest.raises(ValueError, match=r"none\.yaml: no such recipe file"):
        load_recipe("none.yaml")
    with pytest.raises(ValueError, match=r"there is no recipe 'qwertz'\. Built in: .*quickstart.*or give a"):
        find_recipe("qwertz")
    with pytest.raises(ValueError, match="there is no recipe"):
        find_recipe("q" * 5000)
    with pytest.raises(ValueError, match="no such recipe file"):
        find_recipe("q" * 5000 + ".yaml")


def test_a_recipe_that_extends_none_is_named(written):
    with pytest.raises(ValueError, match=r"mine\.yaml: extends: there is no recipe 'quikstart'; did"):
        load_recipe(written("extends: quikstart"))


def test_a_folder_is_no_recipe(tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ValueError, match=r"folder\.yaml: no such recipe file"):
        load_recipe(tmp_path / "folder.yaml")


def test_expanding_a_path(monkeypatch):
    monkeypatch.setenv("GSPEN_DATA", "/data")
    monkeypatch.setenv("NAME", "${GSPEN_DATA}")
    assert expand("${GSPEN_DATA}/a/${NAME}.txt") == "/data/a/${GSPEN_DATA}.txt"  # what is put in stays
    assert expand("plain.txt") == "plain.txt"
    assert expand("$GSPEN_DATA/{a}") == "$GSPEN_DATA/{a}"


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("GSPEN_DATA", raising=False)
    with pytest.raises(ValueError, match=r"environment variable GSPEN_DATA is not set; .*--set data\.train="):
        expand("${GSPEN_DATA}/train.txt")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
keys = st.text(max_size=5) | st.sampled_from(
    ["extends", "data", "train", "dev", "terms", "name", "document", "inference", "solver", "seed", "system"]
)
values = st.recursive(
    scalars | st.sampled_from(["document", "frank_wolfe", "struct", "quickstart"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)


def loads_or_refuses(folder, content, overrides=()):
    file = folder / "random.yaml"
    file.write_bytes(content)
    with contextlib.suppress(ValueError):
        assert isinstance(load_recipe(file, overrides), Experiment)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
@example(b"a: !!float ''")
@example(b"extends: " + b"a" * 300)
@example(b"&a {b: *a}")
@example(b"a: " + b"1:" * 300 + b"1.5")
def test_any_content_of_a_file_is_a_recipe_or_a_value_error(tmp_path_factory, content):
    loads_or_refuses(tmp_path_factory.getbasetemp(), content)


@given(st.dictionaries(keys, values, max_size=5))
@example({"extends": "quickstart", "inference": 3})
@example({"extends": ["quickstart"]})
@example({"data": {"train": "\ud800", "dev": ""}, "system": "struct"})
def test_any_mapping_is_a_recipe_or_a_value_error(tmp_path_factory, entries):
    for more in ({}, {"data": {"train": "a", "dev": "b"}, "system": "struct"}):
        loads_or_refuses(tmp_path_factory.getbasetemp(), yaml.safe_dump({**entries, **more}).encode())


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_setting_is_made_or_a_value_error(tmp_path_factory, key, value):
    for override in (key, f"{key}={value}", f"data.{key}={value}", f"seed={value}"):
        loads_or_refuses(tmp_path_factory.getbasetemp(), SMALL.encode(), [override])


def test_another_solver_takes_nothing_of_the_one_before():
    recipe = load_recipe("conll03_ma_hovy", ["inference.solver.name=frank_wolfe"])
    assert recipe.inference.solver.schedule == "line_search"


def test_the_solver_need_not_be_named():
    assert load_recipe("quickstart", ["inference.solver.step_size=0.5"]).inference.solver.step_size == 0.5
