// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/known_choices.h"

namespace moesim {
namespace {

thread_local KnownChoices* choices_now = nullptr;

constexpr std::size_t most_ranks = 1024;

}  // namespace

KnownChoices::KnownChoices(bool keeps) : before_(choices_now) {
  choices_now = keeps ? this : nullptr;
}

KnownChoices::~KnownChoices() { choices_now = before_; }

KnownChoices::OfRank* KnownChoices::find(const void* ids, const std::vector<TokenRun>& runs) {
  if (choices_now == nullptr || runs.empty()) return nullptr;
  auto& ranks = choices_now->ranks_;
  const auto found = ranks.find(runs.front().first);
  if (found == ranks.end()) {
    if (ranks.size() == most_ranks) return nullptr;
    return &ranks.emplace(runs.front().first, OfRank{ids, runs, {}, {}}).first->second;
  }
  return found->second.ids == ids && found->second.runs == runs ? &found->second : nullptr;
}

}  // namespace moesim
