"""Components own their configuration: options, defaults, limits and help are stated once, in the class.

    @TERMS.register("convolution", given=["num_labels"])
    class Convolution(GlobalTerm):
        def __init__(self, num_labels: int, hidden: Count = 100, width: Count = 5): ...

The options of a component are the arguments of its constructor, but for those that code supplies (`given`).
Their limits are in the annotations, their descriptions in the docstring. Recipes, model files, help pages and
the constructor itself read them from there. An entry is an option set as recipes and model files hold it:
`{"name": "convolution", "hidden": 100, "width": 5}`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Lt
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

Component = TypeVar("Component")
Class = TypeVar("Class", bound=type)

Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
DropRate = Annotated[float, Ge(0), Lt(1)]

_LIMITS: dict[type, tuple[str, str, Callable[[Any, Any], bool]]] = {
    Ge: ("ge", "at least", lambda value, limit: value >= limit),
    Gt: ("gt", "greater than", lambda value, limit: value > limit),
    Lt: ("lt", "less than", lambda value, limit: value < limit),
}


class Section(BaseModel):
    """A group of entries of a recipe; unknown entries are refused.

    Example:
        >>> class Walk(Section):
        ...     steps: int = 10
        >>> print(Walk(steps=3).as_yaml().strip())
        steps: 3
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    def as_yaml(self) -> str:
        """Return the section, or the whole recipe, as YAML with every entry."""
        import yaml

        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def configurable(given: Collection[str] = ()) -> Callable[[Class], Class]:
    """Let a class check its arguments when it is constructed, and remember its options.

    Args:
        given: arguments that code supplies, which are no options.

    A class may have a static method `check_options` for what annotations cannot say; it raises a ValueError.

    Example:
        >>> @configurable()
        ... class Walk:
        ...     def __init__(self, steps: Count = 10, way: Literal["up", "down"] = "up"): ...
        >>> options_of(Walk(steps=3))
        {'steps': 3, 'way': 'up'}
        >>> Walk(way="left")
        Traceback (most recent call last):
        ValueError: way must be "up" or "down", got 'left'
    """

    def decorate(cls: Class) -> Class:
        constructor = cls.__init__  # type: ignore[misc]
        signature = inspect.signature(cls)
        cls._given = frozenset(given)  # type: ignore[attr-defined]

        @functools.wraps(constructor)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            hints = _hints(cls)
            options = {name: value for name, value in bound.arguments.items() if name not in given}
            for name, value in bound.arguments.items():
                _check(name, value, hints.get(name))
            if hasattr(cls, "check_options"):
                cls.check_options(options)
            object.__setattr__(self, "_options", options)
            constructor(self, *args, **kwargs)

        cls.__init__ = checked  # type: ignore[misc]
        return cls

    return decorate


def options_of(component: Any) -> dict[str, Any]:
    """Return the options that a component was constructed with, as recipes and model files hold them."""
    cls: Any = type(component)
    options: dict[str, Any] = component._options
    return {name: _as_entry(value, _hints(cls)[name]) for name, value in options.items()}


def section_of(cls: Any, *names: str, **fixed: Any) -> type[Section]:
    """Return the section of a recipe that holds the options of a class.

    Args:
        cls: a configurable class.
        names: the options that the section has; by default all.
        fixed: more fields, such as `name`.
    """
    descriptions, hints = _descriptions(cls), _hints(cls)
    fields: dict[str, Any] = dict(fixed)
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in cls._given or (names and name not in names):
            continue
        annotation, default = hints[name], parameter.default
        registry = _registry(annotation)
        if registry is not None:
            annotation, default = registry.entry(), registry.section_for(default)
        elif get_origin(annotation) is Sequence:  # a section cannot change, so its sequences are tuples
            annotation = tuple[get_args(annotation)[0], ...]  # type: ignore[misc]
        default = ... if default is parameter.empty else default
        fields[name] = (annotation, Field(default, description=descriptions.get(name)))
    section = create_model(cls.__name__, __base__=_OptionsSection, __module__=cls.__module__, **fields)
    section.__doc__ = (inspect.getdoc(cls) or "").partition("\n")[0]
    section._component = cls
    return section


class _OptionsSection(Section):
    """The options of a configurable class, checked as its constructor checks them."""

    _component: ClassVar[Any]

    @model_validator(mode="after")
    def _check_options(self) -> _OptionsSection:
        if hasattr(self._component, "check_options"):
            self._component.check_options(self.model_dump())
        return self


def given_to(cls: Any, available: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that code supplies to a configurable class, out of those that it can supply."""
    missing = sorted(cls._given - available.keys())
    if missing:
        raise ValueError(
            f"{cls.__name__} needs {', '.join(missing)}, got {', '.join(available) or 'nothing'}; choose a "
            "component that needs no more, or pass the missing arguments"
        )
    return {name: available[name] for name in cls._given}


class Registry(Generic[Component]):
    """The components of a category, such as terms, by the names that recipes and model files use.

    Args:
        noun: what a component is called in errors.
        default: name of the component that an entry without a name stands for.

    Example:
        >>> GREETINGS = Registry("greeting")
        >>> @GREETINGS.register("hello")
        ... class Hello:
        ...     def __init__(self, times: Count = 1):
        ...         self.times = times
        >>> GREETINGS.make({"name": "hello", "times": 2}).times
        2
        >>> GREETINGS.entry_of(Hello())
        {'name': 'hello', 'times': 1}
        >>> GREETINGS.make({"name": "good day"})
        Traceback (most recent call last):
        ValueError: expected the name of a greeting (hello), got 'good day'
    """

    def __init__(self, noun: str, default: str | None = None) -> None:
        self.noun, self.default = noun, default
        self.classes: dict[str, Any] = {}

    def register(self, name: str, given: Collection[str] = ()) -> Callable[[Class], Class]:
        """Return a decorator that adds a class under a name; see `configurable`."""

        def add(cls: Class) -> Class:
            self.classes[name] = configurable(given)(cls)
            return cls

        return add

    def make(self, entry: Mapping[str, Any], **given: Any) -> Component:
        """Return the component that an entry describes.

        Args:
            entry: its name and options.
            given: what code can supply; the component gets the arguments that it declares.
        """
        options = {"name": self.default} | dict(entry)
        name = options.pop("name")
        if name not in self.classes:
            raise ValueError(f"expected the name of a {self.noun} ({', '.join(self.classes)}), got {name!r}")
        cls = self.classes[name]
        for option, hint in _hints(cls).items():
            registry = _registry(hint)
            if registry is not None and isinstance(options.get(option), Mapping):
                options[option] = registry.make(options[option])
        return cls(**given_to(cls, given), **options)

    def entry_of(self, component: Any) -> dict[str, Any]:
        """Return the entry that describes a component."""
        for name, cls in self.classes.items():
            if type(component) is cls:
                return {"name": name} | options_of(component)
        raise ValueError(
            f"{type(component).__name__} is not registered as a {self.noun}: it has no entry in files"
        )

    def entry(self, given: Collection[str] | None = None) -> Any:
        """Return the annotation of a field that holds an entry.

        Args:
            given: only components that need no other given arguments; all components by default.
        """
        sections = [
            self._section(name)
            for name, cls in self.classes.items()
            if given is None or cls._given <= frozenset(given)
        ]
        return Annotated[Union[tuple(sections)], Field(discriminator="name")]  # noqa: UP007

    def section_for(self, component: Any) -> Section:
        """Return a component's entry as a section."""
        entry = self.entry_of(component)
        return self._section(entry["name"])(**entry)

    @functools.cache  # noqa: B019, registries live as long as the program
    def _section(self, name: str) -> type[Section]:
        annotation = Annotated[Literal[name], Field(description=f"which {self.noun}")]  # type: ignore[valid-type]
        field = (annotation, name) if name == self.default else (annotation, ...)
        return section_of(self.classes[name], name=field)


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a class's options, with their limits."""
    source = cls if dataclasses.is_dataclass(cls) else inspect.unwrap(cls.__init__)
    return get_type_hints(source, include_extras=True)


def _registry(annotation: Any) -> Registry | None:
    """Return the registry in the annotation of an option that is itself a component."""
    marks = annotation.__metadata__ if get_origin(annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Registry)), None)


def _as_entry(value: Any, annotation: Any) -> Any:
    registry = _registry(annotation)
    if registry is not None:
        return registry.entry_of(value)
    return list(value) if isinstance(value, tuple | list) else value


def _check(name: str, value: Any, annotation: Any) -> None:
    """Raise a ValueError for a value that the annotation excludes: an unknown choice, or beyond a limit."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        if not any(isinstance(value, member) for member in arguments if isinstance(member, type)):
            for argument in arguments:
                _check(name, value, argument)
    elif origin is Literal and value not in arguments:
        choices = " or ".join(", ".join(f'"{choice}"' for choice in arguments).rsplit(", ", 1))
        raise ValueError(f"{name} must be {choices}, got {value!r}")
    elif origin in (tuple, Sequence) and isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            _check(name, item, arguments[0])
    elif origin is Annotated:
        _check(name, value, arguments[0])
        limits = [(mark, *_LIMITS[type(mark)]) for mark in arguments[1:] if type(mark) in _LIMITS]
        if not all(holds(value, getattr(mark, field)) for mark, field, _, holds in limits):
            allowed = " and ".join(f"{words} {getattr(mark, field)}" for mark, field, words, _ in limits)
            raise ValueError(f"{name} must be {allowed}, got {value!r}")


def _descriptions(cls: Any) -> dict[str, str]:
    """Return the descriptions of a class's arguments, from the Args section of its docstring."""
    text = inspect.getdoc(cls) or ""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", text, re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(words.split()).rstrip(".") for name, words in entries}
