"""The corrections' values against the derivations written down by hand."""

import subprocess
import sys

import pytest

from shardbook.collectives.reconciliation import corrections

BY_ID = {entry.id: entry for entry in corrections()}


@pytest.mark.parametrize(
    ("name", "document", "values"),
    [
        ("M11", "D", [(3, 3, 6), (1.5, 1.5, 6)]),
        ("M23", "C", [(6, 6, 3), (4, 4, 2)]),
        ("M28", "B", [(13, 13.5, 27 / 16)]),
        ("M35", "D", [(900, 900, 450), (18, 18, 9)]),
        ("M37", "E", [(8, 16, 8)]),
    ],
)
def test_values(name, document, values):
    entry = BY_ID[name]
    assert entry.document == document
    assert [(one.claimed, one.as_source, one.right) for one in entry.figures] == values


def test_m28_shows_the_bytes_that_document_b_prints():
    text = " ".join(BY_ID["M28"].derivation)
    for value in ("75.29 GB", "5.58 GB", "75.3 GB", "44.6 GB", "13.5", "gives 12."):
        assert value in text


def test_plans_prices_and_proofs_need_no_numpy():
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import pkgutil, importlib, shardbook.collectives as c\n"
        "for m in pkgutil.iter_modules(c.__path__):\n"
        "    if m.name != 'run': importlib.import_module('shardbook.collectives.' + m.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
