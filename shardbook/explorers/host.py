"""The published page's side of an explorer: raw control texts in, JSON out. Runs in the browser."""

import json

from shardbook.errors import InputError
from shardbook.explorers.html import table_html
from shardbook.explorers.registry import get


def update(explorer: str, raw: str) -> str:
    """Return the view for ``raw`` (a JSON object of control texts) as JSON.

    Keys: ``figure``, ``table``, ``sentence``; or ``error`` with ``control`` and ``message``.
    """
    try:
        view = get(explorer).view(json.loads(raw))
    except InputError as error:
        return json.dumps({"error": {"control": error.argument, "message": str(error)}})
    return json.dumps(
        {"figure": view.figure, "table": table_html(view.table), "sentence": view.sentence}
    )
