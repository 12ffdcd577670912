# SPDX-License-Identifier: Apache-2.0
"""Commands that pages print: their subcommands, flags, files and names exist.

usage: page_commands_test.py PROGRAM...
"""
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[1]
PROGRAMS = {pathlib.Path(path).name: path for path in sys.argv[1:]}
LISTS = {"--topology": "topologies", "--policy": "policies", "--model": "models"}
COMMAND = re.compile(r"(?<![\w/.-])(?:build/\S*/)?(moesim(?:-hw)?) ([a-z][^`|#;>&]*)")
MADE_BEFORE = re.compile(r"^(?:mini|my|T|M|CLUSTER)\b|[$.]")  # in the example, by a command before


def pages():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]


def commands():
    """(page, words) of every command of a page, continued lines joined."""
    for page in pages():
        if page.name == "CHANGELOG.md":
            continue
        text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
        for program, rest in COMMAND.findall(text):
            rest = rest.split("\n")[0]
            if program in PROGRAMS:
                try:
                    yield page.name, [program, *shlex.split(rest)]
                except ValueError:  # prose with an apostrophe
                    continue


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Program:
    """What a program's help and lists say."""

    def __init__(self, path):
        self.path = path
        self.known = {}

    def help(self, *subcommands):
        if subcommands not in self.known:
            self.known[subcommands] = printed(self.path, *subcommands, "--help")
        return self.known[subcommands]

    def subcommands(self, *above):
        _, _, list_of = self.help(*above).partition("\nSubcommands:\n")
        return re.findall(r"^  ([a-z]\S*)", list_of, re.MULTILINE)

    def split(self, words):
        """The subcommands that a command begins with, and the rest."""
        path = []
        while len(path) < len(words) and words[len(path)] in self.subcommands(*path):
            path.append(words[len(path)])
        return tuple(path), words[len(path):]

    def flags(self, *subcommands):
        return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", self.help(*subcommands)))


class PageCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = {name: Program(path) for name, path in PROGRAMS.items()}
        moesim = PROGRAMS["moesim"]
        cls.names = {flag: {line.split()[0] for line in printed(moesim, "list", what).splitlines() if line.strip()}
                     for flag, what in LISTS.items()}

    def examples(self):
        for page, (name, *words) in commands():
            path, rest = self.programs[name].split(words)
            if path:  # else a sentence
                yield page, name, path, rest

    def test_there_are_commands(self):
        self.assertGreater(len(list(self.examples())), 60)

    def test_flags_exist(self):
        for page, name, path, words in self.examples():
            known = self.programs[name].flags(*path)
            for word in words:
                flag = word.split("=")[0].rstrip(".,:)")
                if re.fullmatch(r"--?[a-z][\w-]*", flag):
                    with self.subTest(page=page, command=" ".join([name, *path])):
                        self.assertIn(flag, known)

    def test_names_exist(self):
        for page, name, path, words in self.examples():
            for flag, value in zip(words, words[1:]):
                for part in value.split(",") if flag in LISTS else []:
                    if MADE_BEFORE.search(part):
                        continue
                    with self.subTest(page=page, command=" ".join([name, *path])):
                        self.assertIn(part.rstrip(".,:)"), self.names[flag])

    def test_shipped_files_exist(self):
        for page, name, path, words in self.examples():
            for word in words:
                if re.match(r"(?:scenarios|traces|topologies|models|papers)/", word):
                    with self.subTest(page=page, command=" ".join([name, *path])):
                        self.assertTrue((ROOT / word.rstrip(".,:)")).exists(), word)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
