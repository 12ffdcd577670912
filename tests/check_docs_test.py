# SPDX-License-Identifier: Apache-2.0
"""check_docs.py accepts this repository and names every problem of a small bad tree; its counts are those of small pages."""
import sys
import unittest

from source_check import ROOT, SourceCheck

sys.path.insert(0, str(ROOT / "scripts"))
import check_docs  # noqa: E402
import page_words  # noqa: E402

BAD_TREE = {
    "sim/a.h": "// See docs/a.md and docs/" "gone.md.\n",
    "README.md": "# Top\n[a](docs/a.md) [b](docs/b.md#two-words) [out](https://example.org/x.md)\n"
                 "| 1,024 times of H100 | published | median 6.9 %, 90 % within 20.2 %; -26 to 3 % | [r](docs/results/r.md) |\n"
                 "| 12 loads | published | median 8.6 % | [r](docs/results/r.md) |\n",
    "docs/results/r.md": "| times | 1024 | 6.8 % | 20.2 % |\n| loads | 11 | 6.9 % | 8.6 % |\nfrom -26.1 to 3.4\n",
    "docs/README.md": "[a](a.md) [r](results/r.md) [c](adding-a-c.md)\n[here](#nowhere)\n",
    "docs/adding-a-c.md": "Write `sim/c.h`.\n",
    "docs/a.md": "# A page\n\n## `Two` words!\n\n[itself](#two-words) [again](#two-words-1) [top](../README.md#top)\n"
                 "`[](const Map&)` [none](none.md)\n\n```\n[](in code) # no heading\n```\n\n    [](indented)\n\n## Two words\n",
    "docs/b.md": "[a](a.md#no-heading) `sim/a.h` `sim/b.h` `sim/<x>.h`\n" + "word.\n" * 3000,
}

PROBLEMS = """\
README.md:2: docs/b.md#two-words has no such heading
docs/README.md:2: #nowhere has no such heading
docs/a.md:6: the link none.md leads nowhere
docs/b.md:1: a.md#no-heading has no such heading
docs/b.md:1: there is no sim/b.h
docs/b.md:1: 3004 words, more than 3000
docs/b.md:1: docs/README.md has no link to this page
README.md:3: docs/results/r.md does not say 'median 6.9 %, 90 % within 20.2 %'
README.md:4: docs/results/r.md does not say '12 loads'
sim/a.h:1: there is no docs/gone.md
"""


class CheckDocs(SourceCheck, unittest.TestCase):
    script = "check_docs.py"
    bad_tree = BAD_TREE
    problems = PROBLEMS


PAGE = """# Beside a heading

One two in 3. Four
five `a. b c`, six [seven. Eight](nine.md) words?

- An item. "A quoted name. Alone"
  goes on here.

| a table alone. It | is no sentence; there is no other |

```
alone in code.
```

    beside. In code

1. Last (of all). <!-- alone. -->
"""


class PageWords(unittest.TestCase):
    def test_sentences(self):
        self.assertEqual(list(page_words.sentences(PAGE)),
                         [(3, 4), (3, 5), (3, 2), (6, 2), (6, 4), (17, 3)])

    def test_long_lines(self):
        long = "word " * 24
        page = f"{long}\n| {long} |\n```\n{long}\n```\n    {long}\n<!-- rows: written by x -->\n{long}\n<!-- end of rows -->\n\n- {long}\n"
        self.assertEqual(list(page_words.long_lines(page)), [(1, 120), (11, 122)])

    def test_words_to_avoid(self):
        self.assertEqual(list(page_words.avoided(PAGE)), [(1, "beside"), (7, "goes on"), (9, "alone"), (9, "is no")])

    def test_each_has_an_example(self):
        for name in page_words.AVOID:
            self.assertEqual([found for _, found in page_words.avoided(f"A word, {name}, again.")], [name])


class Bounds(unittest.TestCase):
    texts = {"docs/a.md": PAGE, "docs/b.md": "word " * 26 + ".\n\n" + "word\n" * 41 + "\n"}
    words = sum(len(text.split()) for text in texts.values())

    def over(self, *bounds):
        return list(check_docs.over_bounds(self.texts, dict(zip(check_docs.BOUNDS, bounds))))

    def test_what_is_within(self):
        self.assertEqual(self.over(self.words, 2, 1, 4), [])

    def test_what_is_over(self):
        self.assertEqual(self.over(self.words - 1, 1, 0, 3), [f"docs: {what}: check_docs.py --places shows them" for what in (
            f"{self.words} words, more than {self.words - 1}", "2 sentences of more than 25 words, more than 1",
            "1 lines of more than 119 characters, more than 0", "4 words to avoid, more than 3")])

    def test_which_pages_count(self):
        names = set(check_docs.counted(ROOT))
        self.assertLess({"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/results/papers.md"}, names)
        self.assertFalse({"CHANGELOG.md", "models/README.md"} & names)


if __name__ == "__main__":
    unittest.main()
