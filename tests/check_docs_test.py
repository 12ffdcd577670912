# SPDX-License-Identifier: Apache-2.0
"""check_docs.py accepts this repository and names every problem of a small bad tree."""
import unittest

from source_check import SourceCheck

BAD_TREE = {
    "sim/a.h": "// See docs/a.md and docs/" "gone.md.\n",
    "README.md": "# Top\n[a](docs/a.md) [b](docs/b.md#two-words) [out](https://example.org/x.md)\n",
    "docs/README.md": "[a](a.md) [c](adding-a-c.md)\n[here](#nowhere)\n",
    "docs/adding-a-c.md": "Write `sim/c.h`.\n",
    "docs/a.md": "# A page\n\n## `Two` words!\n\n[itself](#two-words) [again](#two-words-1) [top](../README.md#top)\n"
                 "`[](const Map&)` [none](none.md)\n\n```\n[](in code) # no heading\n```\n\n    [](indented)\n\n## Two words\n",
    "docs/b.md": "[a](a.md#no-heading) `sim/a.h` `sim/b.h` `sim/<x>.h`\n" + "word " * 4000,
}

PROBLEMS = """\
README.md:2: docs/b.md#two-words has no such heading
docs/README.md:2: #nowhere has no such heading
docs/a.md:6: the link none.md leads nowhere
docs/b.md:1: a.md#no-heading has no such heading
docs/b.md:1: there is no sim/b.h
docs/b.md:1: 4004 words, more than 4000
docs/b.md:1: docs/README.md has no link to this page
sim/a.h:1: there is no docs/gone.md
"""


class CheckDocs(SourceCheck, unittest.TestCase):
    script = "check_docs.py"
    bad_tree = BAD_TREE
    problems = PROBLEMS


if __name__ == "__main__":
    unittest.main()
