# SPDX-License-Identifier: Apache-2.0
"""docs/layout.svg is what draw_layout.py draws of this repository: no circle, every arrow down, boxes apart."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
PICTURE = (ROOT / "docs/layout.svg").read_text(encoding="utf-8")


def draw(*arguments):
    result = subprocess.run([sys.executable, ROOT / "scripts/draw_layout.py", *map(str, arguments)], capture_output=True, text=True)
    return result.stdout + result.stderr, result.returncode


def boxes():
    found = re.findall(r'<rect class="\w+" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', PICTURE)
    return [tuple(map(int, box)) for box in found]


class DrawLayout(unittest.TestCase):
    def test_the_picture_is_up_to_date(self):
        self.assertEqual(draw("--check", ROOT), ("", 0))

    def test_every_arrow_points_down(self):
        arrows = re.findall(r'<path class="\w+" d="([^"]+)"', PICTURE)
        self.assertTrue(arrows)
        for arrow in arrows:
            heights = [int(y) for y in re.findall(r"[ML] \d+ (\d+)", arrow)] + [int(arrow.split()[-1])]
            self.assertEqual(heights, sorted(heights))
            self.assertLess(heights[0], heights[-1])

    def test_no_boxes_overlap(self):
        for i, (x, y, width, height) in enumerate(boxes()):
            for x2, y2, width2, height2 in boxes()[:i]:
                self.assertTrue(x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y)

    def test_no_arrow_crosses_a_box(self):
        for arrow in re.findall(r'<path class="\w+" d="([^"]+)"', PICTURE):
            for x, top, bottom in re.findall(r"(\d+) (\d+) L \1 (\d+)", arrow):  # past the boxes of a layer
                for left, y, width, height in boxes():
                    self.assertTrue(int(bottom) <= y or y + height <= int(top) or not left <= int(x) <= left + width)


class BadTrees(unittest.TestCase):
    PAGE = "| `sim/a` | first: a |\n| `sim/b` | second: b |\n"

    def draw_tree(self, files, *flags):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return draw(*flags, root)

    def test_names_a_circle(self):
        files = {"docs/layout.md": self.PAGE, "sim/a/a.h": '#include "sim/b/b.h"\n', "sim/b/b.h": '#include "sim/a/a.h"\n'}
        self.assertEqual(self.draw_tree(files), ("a circle: sim/a -> sim/b -> sim/a\n", 1))

    def test_names_folders_without_a_line_and_lines_without_a_folder(self):
        files = {"docs/layout.md": self.PAGE, "sim/a/a.h": "", "sim/new/b.h": ""}
        self.assertEqual(self.draw_tree(files),
                         ("docs/layout.md has no line for sim/new\ndocs/layout.md: there is no folder sim/b\n", 1))

    def test_names_words_that_are_too_long_for_a_box(self):
        files = {"docs/layout.md": "| `sim/a` | what takes more than a box has: a |\n", "sim/a/a.h": ""}
        self.assertEqual(self.draw_tree(files), ("docs/layout.md: what sim/a is for has more than 27 letters before the colon: "
                                                 "what takes more than a box has\n", 1))

    def test_an_old_picture_fails_the_check(self):
        files = {"docs/layout.md": self.PAGE, "sim/a/a.h": '#include "sim/b/b.h"\n', "sim/b/b.h": ""}
        self.assertEqual(self.draw_tree(files, "--check"), ("docs/layout.svg is out of date: run scripts/draw_layout.py\n", 1))
        self.assertEqual(self.draw_tree(files), ("", 0))


if __name__ == "__main__":
    unittest.main()
