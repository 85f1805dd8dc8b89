"""`gspen-ner doctor`: what it finds, and when it complains."""

import json
from importlib import metadata

import pytest

from gspen_ner import installation
from gspen_ner.kernels import NumbaBackend
from tests.tiny import gspen_ner


def doctor(expected=0):
    result = gspen_ner("doctor", "--json")
    assert result.exit_code == expected, result.output
    report = json.loads(result.output)
    assert report["healthy"] == (expected == 0)
    return {(check["group"], check["name"]): check for check in report["checks"]}


@pytest.fixture
def required(monkeypatch):
    """Lets the package's metadata require something."""

    def require(*requirements, extras=()):
        class Told:
            def get_all(self, name):
                return list(extras)

        monkeypatch.setattr(installation.metadata, "requires", lambda name: list(requirements))
        monkeypatch.setattr(installation.metadata, "metadata", lambda name: Told())

    return require


def test_a_working_installation(required):
    required("torch>=2", "numpy")
    checks = doctor()
    assert checks["requirements", "torch"]["detail"] == metadata.version("torch")
    for name in ("numba", "reference"):
        assert checks["backends", name]["status"] == "ok"
    assert "CPUs" in checks["threads", "torch"]["detail"]
    assert {"numba", "hugging face"} <= {name for group, name in checks if group == "caches"}
    assert ("devices", "cpu") in checks


def test_extras_are_those_of_the_metadata(required):
    required("torch", "nosuch>=1; extra == 'wings'", "numpy>=1; extra == 'wings'", extras=["wings"])
    checks = doctor()
    assert checks["extra wings", "nosuch"]["status"] == "missing"
    assert checks["extra wings", "numpy"]["status"] == "ok"
    assert "pip install 'gspen-ner[wings]'" in gspen_ner("doctor").output


@pytest.mark.parametrize(("requirement", "status"), [("nosuch", "missing"), ("torch>=999", "broken")])
def test_a_need_that_is_not_met(required, requirement, status):
    required(requirement)
    checks = doctor(expected=1)
    assert checks["requirements", requirement.split(">")[0]]["status"] == status


def test_a_backend_that_does_not_work(required, monkeypatch):
    required("torch")

    def fail(*arguments):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(NumbaBackend, "forward_backward", fail)
    checks = doctor(expected=1)
    assert checks["backends", "numba"]["detail"] == "RuntimeError: no compiler"
    assert checks["backends", "reference"]["status"] == "ok"


def test_a_package_that_is_not_installed_is_only_noted(monkeypatch):
    def nowhere(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation.metadata, "requires", nowhere)
    assert doctor()["requirements", "gspen-ner"]["status"] == "note"
