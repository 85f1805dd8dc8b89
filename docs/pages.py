"""Pages of the documentation that are made of what the project says elsewhere; a hook of MkDocs.

index            README.md
contributing     CONTRIBUTING.md, whose map also gives the pages of the API
changes          CHANGELOG.md
results          recipes/RESULTS.md
recipes          the entries of recipes, from their schema
command_line     the commands, from typer
api/*            a page for each room
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
WITHOUT_API = ("files", "recipe", "experiments", "report", "bench", "cli")
"""Rooms that the command line and recipes are the way into."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
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
    """A text of the project; of its links, those to other pages and to other sites stay."""
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
    """A page for each row of the map, and one before them."""
    lines = [
        "# API",
        "",
        "A page for each room, in the order in which data flows; imports point only up.",
        "",
    ]
    whats = _whats()
    table = re.findall(
        r"^\| (`.*?) \| (.*?) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )
    for number, (rooms, what) in enumerate(table, 1):
        names = [name for name in re.findall(r"`(\w+)(?:/|\.py)`", rooms) if name not in WITHOUT_API]
        if not names:
            continue
        page = f"{number:02}_{'_'.join(names)}.md"
        title = ", ".join(names)
        what = what if len(names) == rooms.count("`") // 2 else "; ".join(whats[name] for name in names)
        lines.append(f"- [{title}]({page}): {what}")
        yield (
            f"api/{page}",
            "\n".join([f"# {title}", "", what[0].upper() + what[1:] + ".", "", *_members(names)]),
        )
    lines += ["", "## From `gspen_ner` itself", "", "| name | what it is |", "|---|---|"]
    lines += [f"| [`{name}`][{place}] | {_cell(first)} |" for name, place, first in _public()]
    yield "api/index.md", "\n".join(lines)


def _whats() -> dict[str, str]:
    """What each room by itself says that it is, for rows of which some have no page."""
    paths = {path.stem: path for path in (ROOT / "gspen_ner").glob("*.py")}
    paths |= {path.parent.name: path for path in (ROOT / "gspen_ner").glob("*/__init__.py")}
    return {name: _first_line(ast.parse(path.read_text("utf-8"))) for name, path in paths.items()}


def _public() -> Iterator[tuple[str, str, str]]:
    """Every public name, where its page has it, and what it is in a line."""
    for name in sorted(gspen_ner.__all__, key=str.lower):
        found = getattr(gspen_ner, name)
        module = found.__module__
        door = ROOT / Path(*module.split(".")[:2]) / "__init__.py"
        exported = door.exists() and name in _exported(door) and not (door.parent / f"{name}.py").exists()
        place = ".".join(module.split(".")[:2]) if exported else module
        yield name, f"{place}.{name}", (inspect.getdoc(found) or "").partition("\n")[0]


def _first_line(module: ast.Module) -> str:
    line = (ast.get_docstring(module) or "").partition("\n")[0].rstrip(".")
    return line[0].lower() + line[1:]


def _members(rooms: list[str]) -> Iterator[str]:
    """What is to be read of some rooms: what a door exports, or all of its modules."""
    for room in rooms:
        path = ROOT / "gspen_ner" / room
        if not path.is_dir():
            yield f"::: gspen_ner.{room}\n"
            continue
        doors = [path / "__init__.py"] if room != "hosts" else sorted(path.glob("*/__init__.py"))
        for door in doors:
            module = ".".join(door.parent.relative_to(ROOT).parts)
            exported = _exported(door)
            if exported:
                yield f"## `{module}`\n\n{ast.get_docstring(ast.parse(door.read_text('utf-8')))}\n"
                for name in sorted(exported, key=_kind):
                    own = f"{name}.{name}" if (door.parent / f"{name}.py").exists() else name  # as in `solve`
                    yield f"::: {module}.{own}\n    options: {{heading_level: 3}}\n"
            else:
                files = sorted(file for file in path.glob("*.py") if file != door)
                yield from (f"::: {module}.{file.stem}\n" for file in files if not _exported(file))


def _kind(name: str) -> int:
    """Classes before functions, and tables of names at the end."""
    return 2 if name.isupper() else 1 if name.islower() else 0


def _exported(file: Path) -> list[str]:
    """What a module lists as `__all__`, without importing it."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return ast.literal_eval(statement.value)
    return []


# Recipes


def _recipes() -> Iterator[str]:
    yield "# Recipes\n\nA recipe is a YAML file; `extends` names one that it begins with."
    yield "`--set base_training.epochs=5` on the command line changes a single entry.\n\n## Built in\n"
    yield "| name | what it does |\n|---|---|"
    yield from (f"| `{name}` | {_cell(said)} |" for name, said in recipe_names().items())
    seen: dict[type[BaseModel], None] = {}
    for kind in get_args(AnyRecipe):
        yield f"\n## {kind.__name__}\n\n{_first(kind)}\n"
        yield from _entries(kind, seen)
    yield "\n## Sections\n\nWhat the entries above that hold entries of their own may say."
    shown: set[type[BaseModel]] = set()
    while waiting := [section for section in seen if section not in shown]:
        for section in waiting:
            shown.add(section)
            yield f"\n### {section.__name__}\n\n{_first(section)}\n"
            yield from _entries(section, seen)


def _entries(kind: type[BaseModel], seen: dict[type[BaseModel], None]) -> Iterator[str]:
    """A table of entries; sections among their types are added to `seen`."""
    if not kind.model_fields:
        return
    yield "| entry | default | values | what it is |\n|---|---|---|---|"
    for name, field in kind.model_fields.items():
        sections = list(_sections(field.annotation))
        seen.update(dict.fromkeys(sections))
        links = ", ".join(f"[{section.__name__}](#{section.__name__.lower()})" for section in sections)
        said = field.description or (_first(sections[0]) if len(sections) == 1 else "says which kind it is")
        values = links or f"`{_cell(_values(field.annotation))}`"
        default = _default(field.get_default(call_default_factory=True))
        yield f"| `{name}` | {default} | {values} | {_cell(said)} |"


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def _values(annotation: Any) -> str:
    """A type as people write it: `"adam" or "sgd"`, `int or None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    text = re.sub(r"typing\.|Annotated\[(\w+), [^\]]*\]\)?\]", r"\1", str(annotation))
    choices = re.fullmatch(r"Literal\[(.*)\]", text)
    return choices[1].replace("'", "").replace(", ", " or ") if choices else text.replace(" | ", " or ")


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "*needed*"
    if isinstance(value, BaseModel) or value in ((), ""):
        return ""
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def _first(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# Commands


def _commands() -> Iterator[str]:
    yield "# The command line\n\n`gspen-ner COMMAND --help` says the same."
    yield from _command(typer.main.get_command(app), "gspen-ner")


def _command(command: Any, name: str) -> Iterator[str]:
    """A command, or a group and what is in it."""
    if hasattr(command, "list_commands"):
        for verb in command.list_commands(None):
            yield from _command(command.get_command(None, verb), f"{name} {verb}")
        return
    if command.hidden:
        return
    said, _, examples = (command.help or "").partition("Examples:")
    yield f"\n## {name}\n\n{said.replace(chr(8), '').strip()}\n"
    if examples:
        lines = [line.strip() for line in examples.replace("\b", "").splitlines()]
        yield "```console\n" + "\n".join(filter(None, lines)) + "\n```\n"
    rows = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    if rows:
        yield "| argument | default | what it does |\n|---|---|---|"
    for param in rows:
        option = param.param_type_name == "option"
        shown = ", ".join(f"`{way}`" for way in param.opts) if option else f"`{param.name.upper()}`"
        default = param.default
        plain = default is not None and not callable(default) and default not in (False, (), [], "")
        stated = "*needed*" if param.required else f"`{getattr(default, 'value', default)}`" if plain else ""
        stated = param.show_default if isinstance(param.show_default, str) else stated
        yield f"| {shown} | {stated} | {_cell(getattr(param, 'help', None) or '')} |"
