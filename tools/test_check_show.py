# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The checks of the output of `make run`."""

import pytest
from check_show import PROGRAM_BYTES, problems, too_large


@pytest.fixture
def shown(tmp_path):
    """An output without problems."""
    page = tmp_path / "reports/rosta/index.html"
    page.parent.mkdir(parents=True)
    page.write_text("a page")
    compiler = "a line of the compiler " * 10
    return (
        f"{compiler}\ncrosslane 1\nnetworks: tls\n\n$ crosslane reproduce rosta\n"
        f"9. Our own engine\nFPGA to FPGA, case 8.2\nall within\n  {page}\nWhere to go next\n"
    )


def test_nothing_is_wrong(shown):
    assert problems(shown) == []


@pytest.mark.parametrize(
    "part", ["networks: tls", "9. Our own engine", "case 8.2", "all within", "Where to go"]
)
def test_a_part_is_missing(shown, part):
    assert len(problems(shown.replace(part, ""))) == 1


def test_a_line_is_too_long(shown):
    assert "columns" in problems(shown + "x" * 101)[0]


def test_the_page_is_not_there(shown, tmp_path):
    (tmp_path / "reports/rosta/index.html").unlink()
    assert "there is no page" in problems(shown)[0]


def test_no_page_is_named(shown):
    assert problems(shown.replace("index.html", "other.html")) == ["it names no page"]


def test_the_program_is_too_large(tmp_path):
    program = tmp_path / "crosslane"
    program.write_bytes(b"x" * 9)
    assert too_large(program) == []
    with program.open("wb") as file:
        file.truncate(PROGRAM_BYTES + 1)
    assert too_large(program) == [
        "crosslane has 30000001 bytes, more than 30000000: is it stripped?"
    ]
