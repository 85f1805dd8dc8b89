"""A MkDocs hook that generates pages of the documentation from other files and from the code.

index            README.md
contributing     CONTRIBUTING.md, whose map also determines the pages of the API
changes          CHANGELOG.md
results          recipes/RESULTS.md
recipes          entries of recipes, from their schema
command_line     commands and their options, from typer
api/*            one page for each row of the map
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import typer
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import gspen_ner
from gspen_ner.cli import app
from gspen_ner.recipe import AnyRecipe, recipe_names

ROOT = Path(__file__).parents[1]
TEXTS = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "results.md": "recipes/RESULTS.md",
}
WITHOUT_API = ("files", "recipe", "runs", "report", "cli")
"""Rooms without a page, as they are used by the command line and recipes."""


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {page: _text(ROOT / source) for page, source in TEXTS.items()}
    pages |= {"recipes.md": "\n".join(_recipes()), "command_line.md": "\n".join(_commands())}
    pages |= dict(_rooms())
    for page, content in pages.items():
        files.append(File.generated(config, page, content=content))
    rooms = sorted(page for page in pages if page.startswith("api/") and page != "api/index.md")
    for entry in config.nav:
        if "API" in entry:
            entry["API"] = ["api/index.md", *rooms]
    return files


def _text(file: Path) -> str:
    """Return a text of the project, keeping only its links to pages of the documentation and other sites."""
    pages = {source: page for page, source in TEXTS.items()}
    pages |= {f"docs/{page.name}": page.name for page in (ROOT / "docs").iterdir()}

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        return f"[{words}]({pages[target]})" if target in pages else words

    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", link, file.read_text(encoding="utf-8"))


# The API


def _rooms() -> Iterator[tuple[str, str]]:
    """Yield a page for each row of the map, and an index of them."""
    lines = [
        "# API",
        "",
        "One page for each room, in the order in which data flows; imports point only up.",
        "",
    ]
    descriptions = _descriptions()
    table = re.findall(
        r"^\| (`.*?) \| (.*?) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    for number, (rooms, description) in enumerate(table, 1):
        names = [name for name in re.findall(r"`(\w+)(?:/|\.py)`", rooms) if name not in WITHOUT_API]
        if not names:
            continue
        page = f"{number:02}_{'_'.join(names)}.md"
        title = ", ".join(names)
        if len(names) < rooms.count("`") // 2:
            description = "; ".join(descriptions[name] for name in names)
        lines.append(f"- [{title}]({page}): {description}")
        sentence = f"{description[0].upper()}{description[1:]}."
        yield f"api/{page}", "\n".join([f"# {title}", "", sentence, "", *_members(names)])
    lines += ["", "## From `gspen_ner` itself", "", "| name | description |", "|---|---|"]
    lines += [f"| [`{name}`][{target}] | {_cell(first)} |" for name, target, first in _public()]
    yield "api/index.md", "\n".join(lines)


def _descriptions() -> dict[str, str]:
    """Return the description of each room by itself, for rows of which some rooms have no page."""
    paths = {path.stem: path for path in (ROOT / "gspen_ner").glob("*.py")}
    paths |= {path.parent.name: path for path in (ROOT / "gspen_ner").glob("*/__init__.py")}
    return {name: _first_line(ast.parse(path.read_text("utf-8"))) for name, path in paths.items()}


def _public() -> Iterator[tuple[str, str, str]]:
    """Yield each public name, its documented path, and the first line of its docstring."""
    for name in sorted(gspen_ner.__all__, key=str.lower):
        member = getattr(gspen_ner, name)
        module = member.__module__
        init = ROOT / Path(*module.split(".")[:2]) / "__init__.py"
        exported = init.exists() and name in _exported(init) and not (init.parent / f"{name}.py").exists()
        path = ".".join(module.split(".")[:2]) if exported else module
        yield name, f"{path}.{name}", (inspect.getdoc(member) or "").partition("\n")[0]


def _first_line(module: ast.Module) -> str:
    line = (ast.get_docstring(module) or "").partition("\n")[0].rstrip(".")
    return line[0].lower() + line[1:]


def _members(rooms: list[str]) -> Iterator[str]:
    """Yield the members of rooms: the names that an `__init__.py` exports, or otherwise all modules."""
    for room in rooms:
        path = ROOT / "gspen_ner" / room
        if not path.is_dir():
            yield f"::: gspen_ner.{room}\n"
            continue
        inits = sorted(path.glob("**/__init__.py" if room == "hosts" else "__init__.py"))
        for init in inits:
            module = ".".join(init.parent.relative_to(ROOT).parts)
            exported = _exported(init)
            if exported:
                yield f"## `{module}`\n\n{ast.get_docstring(ast.parse(init.read_text('utf-8')))}\n"
                for name in sorted(exported, key=_order):
                    own = f"{name}.{name}" if (init.parent / f"{name}.py").exists() else name  # as in `solve`
                    yield f"::: {module}.{own}\n    options: {{heading_level: 3}}\n"
            else:
                files = sorted(file for file in path.glob("*.py") if file != init)
                yield from (f"::: {module}.{file.stem}\n" for file in files if not _exported(file))


def _order(name: str) -> int:
    """Sort key: classes, then functions, then constants."""
    return 2 if name.isupper() else 1 if name.islower() else 0


def _exported(file: Path) -> list[str]:
    """Return the `__all__` of a module without importing it; empty if it has none."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return ast.literal_eval(statement.value)
    return []


# Recipes


def _recipes() -> Iterator[str]:
    yield "# Recipes\n\nA recipe is a YAML file; `extends` names the recipe whose entries it overrides."
    yield "`--set base_training.epochs=5` on the command line changes a single entry.\n"
    yield "## Built-in recipes\n"
    yield "| name | description |\n|---|---|"
    yield from (f"| `{name}` | {_cell(description)} |" for name, description in recipe_names().items())
    seen: dict[type[BaseModel], None] = {}
    for recipe in get_args(AnyRecipe):
        yield f"\n## {recipe.__name__}\n\n{_first(recipe)}\n"
        yield from _entries(recipe, seen)
    yield "\n## Sections\n\nThe entries above that contain entries of their own."
    shown: set[type[BaseModel]] = set()
    while waiting := [section for section in seen if section not in shown]:
        for section in waiting:
            shown.add(section)
            yield f"\n### {section.__name__}\n\n{_first(section)}\n"
            yield from _entries(section, seen)


def _entries(section: type[BaseModel], seen: dict[type[BaseModel], None]) -> Iterator[str]:
    """Yield a table of the entries of a section, and add the sections among their types to `seen`."""
    if not section.model_fields:
        return
    yield "| entry | default | values | description |\n|---|---|---|---|"
    for name, field in section.model_fields.items():
        sections = list(_sections(field.annotation))
        seen.update(dict.fromkeys(sections))
        links = ", ".join(f"[{section.__name__}](#{section.__name__.lower()})" for section in sections)
        implied = _first(sections[0]) if len(sections) == 1 else "Selects the type of this section."
        values = links or f"`{_cell(_values(field.annotation))}`"
        default = _default(field.get_default(call_default_factory=True))
        yield f"| `{name}` | {default} | {values} | {_cell(field.description or implied)} |"


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def _values(annotation: Any) -> str:
    """Return a type in words: `adam or sgd`, `int or None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    text = re.sub(r"typing\.|Annotated\[(\w+), [^\]]*\]\)?\]", r"\1", str(annotation))
    choices = re.fullmatch(r"Literal\[(.*)\]", text)
    return choices[1].replace("'", "").replace(", ", " or ") if choices else text.replace(" | ", " or ")


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "*required*"
    if isinstance(value, BaseModel) or value in ((), ""):
        return ""
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def _first(section: type) -> str:
    """Return the first line of a docstring."""
    return (section.__doc__ or "").strip().splitlines()[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Commands


def _commands() -> Iterator[str]:
    yield "# The command line\n\n`gspen-ner COMMAND --help` prints the same text."
    yield from _command(typer.main.get_command(app), "gspen-ner")


def _command(command: Any, name: str) -> Iterator[str]:
    """Yield the page of a command, or those of all commands of a group."""
    if hasattr(command, "list_commands"):
        for verb in command.list_commands(None):
            yield from _command(command.get_command(None, verb), f"{name} {verb}")
        return
    if command.hidden:
        return
    text, _, examples = (command.help or "").partition("Examples:")
    yield f"\n## {name}\n\n{text.replace(chr(8), '').strip()}\n"
    if examples:
        lines = [line.strip() for line in examples.replace("\b", "").splitlines()]
        yield "```console\n" + "\n".join(filter(None, lines)) + "\n```\n"
    rows = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    if rows:
        yield "| argument | default | description |\n|---|---|---|"
    for param in rows:
        option = param.param_type_name == "option"
        shown = ", ".join(f"`{name}`" for name in param.opts) if option else f"`{param.name.upper()}`"
        default = param.default
        plain = default is not None and not callable(default) and default not in (False, (), [], "")
        stated = (
            "*required*" if param.required else f"`{getattr(default, 'value', default)}`" if plain else ""
        )
        stated = param.show_default if isinstance(param.show_default, str) else stated
        yield f"| {shown} | {stated} | {_cell(getattr(param, 'help', None) or '')} |"
