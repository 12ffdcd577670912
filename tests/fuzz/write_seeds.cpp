// SPDX-License-Identifier: Apache-2.0
// write_seeds TARGET FOLDER: the corpus that a run of libFuzzer begins with.
#include <cstdio>
#include <exception>

#include "sim/base/files.h"
#include "tests/fuzz/seeds.h"

int main(int count, char** words) {
  if (count != 3) return 2;
  try {
    const std::string target = words[1], folder = words[2];
    int number = 0;
    for (const auto& inputs : {moesim::fuzz::seeds_of(target), moesim::fuzz::corpus_of(target)}) {
      for (const std::string& input : inputs) {
        moesim::write_file(folder + "/" + std::to_string(number++), input);
      }
    }
    for (const auto& [name, input] : moesim::fuzz::findings_of(target)) {
      moesim::write_file(folder + "/" + name, input);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
