// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/hostile_inputs.h"

#include <zlib.h>

#include "sim/base/gzip.h"

namespace moesim {
namespace {

constexpr int deep = 100'000;

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

std::vector<HostileInput> no_text() {
  return {{"empty", "", false},
          {"nul", std::string("{\"a\": \"x\0\"}\n", 12)},
          {"latin-1", "{\"a\": \"caf\xe9\"}\n"},
          {"bytes", "\xff\xfe{\x01\x02"}};
}

void add_cuts(const std::string& sound, std::vector<HostileInput>& inputs) {
  for (const int percent : {25, 50, 75}) {
    inputs.push_back({"cut-" + std::to_string(percent),
                      sound.substr(0, sound.size() * static_cast<std::size_t>(percent) / 100),
                      false});
  }
}

/// Nine copies of nine copies of ...
std::string alias_bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= 30; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    text += repeated("*a" + std::to_string(i - 1) + ", ", 9) + "]\n";
  }
  return text;
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

std::string npy(const std::string& header) {
  return "\x93NUMPY" + std::string("\x01\x00", 2) + little_endian(header.size(), 2) + header;
}

/// A zip archive whose entry claims what it is given.
std::string zip_of(const std::string& name, const std::string& content, std::uint64_t claimed,
                   int method) {
  const auto crc =
      ::crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  const std::string sizes = little_endian(crc, 4) + little_endian(content.size(), 4) +
                            little_endian(claimed, 4) + little_endian(name.size(), 2);
  const std::string versions = little_endian(0, 2) + little_endian(method, 2) + little_endian(0, 4);
  const std::string local =
      "PK\x03\x04" + little_endian(20, 2) + versions + sizes + little_endian(0, 2) + name + content;
  const std::string entry = "PK\x01\x02" + little_endian(20, 2) + little_endian(20, 2) + versions +
                            sizes + little_endian(0, 16) + name;
  return local + entry + "PK\x05\x06" + little_endian(0, 4) + little_endian(1, 2) +
         little_endian(1, 2) + little_endian(entry.size(), 4) + little_endian(local.size(), 4) +
         little_endian(0, 2);
}

}  // namespace

std::vector<HostileInput> hostile_yaml(const std::string& sound) {
  std::vector<HostileInput> inputs = no_text();
  inputs.insert(inputs.end(), {{"comma", ","},
                               {"list-and-comma", "- a\n,"},
                               {"second-document", "a: 1\n--- b\n"},
                               {"text-after", "{a: 1}\nb\n"},
                               {"own-alias", "a: &x [*x]\n"},
                               {"own-alias-in-map", "a: &x {b: {c: *x}}\n"},
                               {"alias-bomb", alias_bomb()},
                               {"deep-lists", repeated("[", deep) + repeated("]", deep)},
                               {"deep-maps", repeated("{a: ", deep) + "1" + repeated("}", deep)},
                               {"deep-blocks", repeated("- ", deep) + "x"},
                               {"no-anchor", "a: *x\n"},
                               {"open", "a: [1,\n"}});
  add_cuts(sound, inputs);
  return inputs;
}

std::vector<HostileInput> hostile_json(const std::string& sound) {
  std::vector<HostileInput> inputs = no_text();
  inputs.insert(inputs.end(),
                {{"comma", "{,"},
                 {"second", "{}\n{}"},
                 {"deep-lists", "{\"a\": " + repeated("[", deep) + repeated("]", deep) + "}"},
                 {"deep-objects", repeated("{\"a\": ", deep) + "1" + repeated("}", deep)},
                 {"deep-open", repeated("{\"a\": [", deep)}});
  add_cuts(sound, inputs);
  return inputs;
}

std::vector<HostileInput> hostile_lines(const std::string& sound) {
  std::vector<HostileInput> inputs = no_text();
  inputs.insert(inputs.end(), {{"comma", ",", false},
                               {"brackets", repeated("[", deep), false},
                               {"words", repeated("x y\t", deep), false},
                               {"commas", repeated(",", deep), false},
                               {"lines", repeated("\n", deep), false}});
  add_cuts(sound, inputs);
  return inputs;
}

std::vector<HostileInput> hostile_gzip(const std::vector<HostileInput>& texts) {
  std::vector<HostileInput> inputs = {{"magic", "\x1f\x8b", false},
                                      {"bomb", gzipped(std::string(256 << 20, ' ')), false}};
  for (const HostileInput& text : texts) {
    inputs.push_back({text.name, gzipped(text.content), text.placed});
  }
  const std::string last = inputs.back().content;
  for (const std::size_t size : {last.size() / 2, last.size() - 1}) {
    inputs.push_back({"packed-cut-" + std::to_string(size), last.substr(0, size), false});
  }
  return inputs;
}

std::vector<HostileInput> hostile_npy(const std::string& sound) {
  const auto shaped = [](const std::string& shape) {
    return npy("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }\n");
  };
  std::vector<HostileInput> inputs = {
      {"empty", ""},
      {"comma", ","},
      {"magic", "\x93NUMPY"},
      {"huge", shaped("(999999999999999999, 999999999999999999, 999999999999999999)")},
      {"large", shaped("(2, 99999999999, 2)")},
      {"many-axes", shaped("(" + repeated("1,", 30'000) + ")")},
      {"header-length", "\x93NUMPY" + std::string("\x02\x00\xff\xff\xff\xff{", 7)},
      {"brackets", npy(repeated("(", 60'000))},
      {"latin-1", npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,)}\xe9\n")}};
  add_cuts(sound, inputs);
  for (HostileInput& input : inputs) input.placed = false;
  return inputs;
}

std::vector<HostileInput> hostile_npz(const std::string& name, const std::string& sound) {
  std::vector<HostileInput> inputs;
  for (const HostileInput& array : hostile_npy(sound)) {
    inputs.push_back({"in-" + array.name, zipped(name + ".npy", array.content)});
  }
  const std::string packed = gzipped(std::string(256 << 20, '\0')).substr(10);  // raw deflate
  const std::string whole = zipped(name + ".npy", sound);
  inputs.insert(inputs.end(),
                {{"empty", ""},
                 {"comma", ","},
                 {"claims", zip_of(name + ".npy", sound, 0xfffffff0, 8)},
                 {"claims-stored", zip_of(name + ".npy", sound, 0xfffffff0, 0)},
                 {"bomb", zip_of(name + ".npy", packed, 256 << 20, 8)},
                 {"many", whole.substr(0, whole.size() - 14) + std::string(4, '\xff') +
                              whole.substr(whole.size() - 10)}});
  add_cuts(whole, inputs);
  for (HostileInput& input : inputs) input.placed = false;
  return inputs;
}

std::string zipped(const std::string& name, const std::string& content) {
  return zip_of(name, content, content.size(), 0);
}

}  // namespace moesim
