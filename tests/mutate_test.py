# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate knows every room, all of its sources and tests, and breaks lines as it says.

usage: mutate_test.py
"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import schemata  # noqa: E402


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.name, loader))
    loader.exec_module(module)
    return module


mutate = load(ROOT / "scripts/mutate")
# Sources that a build with all libraries leaves out.
OF_OTHER_BUILDS = {ROOT / name for name in ("sim/base/platform_other.cpp", "realhw/core/gemm_plain.cpp",
                                            "realhw/tcp/meet/hmac_absent.cpp")}


class Mutants(unittest.TestCase):
    def of(self, text):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "a.cpp"
            source.write_text(text, encoding="utf-8")
            return [line for _, line in mutate.mutants_of(source)]

    def test_a_line_is_broken_in_every_way_that_it_can_be(self):
        self.assertEqual(self.of("  return (value + by - 1) / by;\n"),
                         ["  return (value - by - 1) / by;", "  return (value + by + 1) / by;",
                          "  return (value + by - 1) * by;", "  return (value + by - 2) / by;"])
        self.assertEqual(self.of("  done(a);\n"), ["  ;"])

    def chosen(self, text):
        """The text with all of its mutants in it."""
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "a.cpp"
            source.write_text(text, encoding="utf-8")
            every = [(at, *mutant) for at, mutant in enumerate(mutate.mutants_of(source), 1)]
        made = schemata.Schemata(text, every).rendered()
        return made.removeprefix(schemata.DECLARATION).replace("moesim_mutant", "m")

    def test_a_choice_is_around_the_expression_next_to_the_change(self):
        self.assertEqual(self.chosen("  x = f(a + b, c);\n"),
                         "  { if (!m(2)) { x = f((m(1) ? (a - b) : (a + b)), c); } }\n")
        self.assertEqual(self.chosen("if (a) return b <\n    c;  // <\n"), "if ((m(1) != static_cast<bool>(a))) return b <\n    c;  // <\n")
        self.assertEqual(self.chosen("if (!(a) || !b) return;\n"),
                         "if ((m(2) != static_cast<bool>((m(1) ? (!(a) && !b) : (!(a) || !b))))) return;\n")
        self.assertEqual(self.chosen("  auto x = a\n      - b;\n"), "  auto x = (m(1) ? (a       + b) : (a\n      - b));\n")
        self.assertEqual(self.chosen("  return a\n      .b(c) + d;\n"),
                         "  return (m(1) ? (a       .b(c) - d) : (a\n      .b(c) + d));\n")
        self.assertEqual(self.chosen("  f(a)\n      .g(1);\n  h(a,\n    i(1));\n").count("m("), 2)  # no line that continues a statement
        self.assertEqual(self.chosen("while (a) continue;\n"), "while (a) { if (m(1)) { break; } else { continue; } }\n")
        self.assertEqual(self.chosen("x = c == '<' ? y - z : Foo::bar * 3;\n"),
                         "x = (m(1) ? (c != '<') : (c == '<')) ? (m(2) ? (y + z) : (y - z)) : (m(3) ? (Foo::bar / 3) : (Foo::bar * 3));\n")

    def test_what_does_not_compile_is_taken_out_by_its_column(self):
        text = "x = f(a + b, c - d);\n"
        made = schemata.Schemata(text, [(1, 1, "x = f(a - b, c - d);"), (2, 1, "x = f(a + b, c + d);")])
        self.assertTrue(made.drop([(1, made.rendered().index("c + d") + 1)]))
        self.assertEqual(made.ids(), {1})
        made.rendered()
        self.assertFalse(made.drop([(7, 1)]))

    def test_comments_strings_and_what_shows_nothing_are_left(self):
        self.assertEqual(self.of('// a + b\n  list.reserve(a + b);\n  static_assert(a == b);\nauto x = "a + b";\n'), [])

    @unittest.skipUnless((ROOT / "build/build.ninja").exists(), "there is no ./build")
    def test_every_room_has_tests_and_all_of_its_sources(self):
        for name in mutate.ROOMS:
            with self.subTest(room=name):
                room = mutate.Room(name)
                self.assertEqual(room.sources, sorted(set((ROOT / name).rglob("*.cpp")) - OF_OTHER_BUILDS))
                self.assertLessEqual({*room.binaries}, {*mutate.targets(".*")})

    @unittest.skipUnless((ROOT / "build/build.ninja").exists(), "there is no ./build")
    def test_it_finds_what_does_not_compile(self):
        unit = mutate.Room("sim/base").units[0]
        with tempfile.TemporaryDirectory() as folder:
            self.assertFalse(unit.compile(unit.sources[0], pathlib.Path(folder) / "a.o", "int f() { return g; }\n"))
        self.assertEqual(unit.errors, [(1, 18)])

    @unittest.skipUnless((ROOT / "build/build.ninja").exists() and mutate.targets(mutate.KERNELS), "./build is without the GPU code")
    def test_rooms_of_gpu_code_have_tests_and_all_of_their_sources(self):
        for name in mutate.GPU_ROOMS:
            with self.subTest(room=name):
                room = mutate.Room(name)
                self.assertEqual(room.sources, sorted([*(ROOT / name).rglob("*.cpp"), *(ROOT / name).rglob("*.cu")]))
                self.assertLessEqual({*room.binaries, *mutate.GPU_MODULES.values()}, {*mutate.targets(".*")})


if __name__ == "__main__":
    unittest.main()
