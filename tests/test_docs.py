"""Every snippet of README and docs runs, without a warning, and prints what stands below it."""

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
WITH_DATA = [pytest.param(p, marks=pytest.mark.data) if p == "README.md" else p for p in PAGES]
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"\d+(\.\d+)?")


@pytest.mark.parametrize("page", WITH_DATA)
def test_snippets_run_and_print_what_is_shown(page):
    names = {}
    for code, shown in BLOCK.findall((ROOT / page).read_text()):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, page, "exec"), names)
        if shown:  # fresh noise changes the figures, not the words
            assert NUMBER.sub("#", out.getvalue()).strip() == NUMBER.sub("#", shown).strip()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_readme_begins_with_two_lines_to_install_and_ten_that_run():
    text = (ROOT / "README.md").read_text()
    install, code = re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)[:2]
    assert len(install.strip().split("\n")) == 2 and "torch" not in install
    assert len([line for line in code.split("\n") if line.strip()]) == 10
    assert text.startswith("```console")
