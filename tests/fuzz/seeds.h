// SPDX-License-Identifier: Apache-2.0
// Inputs that a target reads without an Error: where fuzzing starts.
#pragma once

#include <string>
#include <vector>

namespace moesim::fuzz {

/// Made by our own code where the repository has no such files.
std::vector<std::string> seeds_of(const std::string& target);

/// What fuzzing learnt, sound inputs and others: tests/fuzz/corpus/TARGET.gz, where each input
/// stands behind a line with its length in bytes (`scripts/fuzz --keep` writes them).
std::vector<std::string> corpus_of(const std::string& target);

/// What once was a finding and is refused since: the files of tests/fuzz/findings/TARGET.
struct Finding {
  std::string name, input;
};
std::vector<Finding> findings_of(const std::string& target);

}  // namespace moesim::fuzz
