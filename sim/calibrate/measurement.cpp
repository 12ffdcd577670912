// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/measurement.h"

namespace moesim {
namespace {

constexpr const char* collective_names[] = {"alltoall", "all_gather", "reduce_scatter",
                                            "all_reduce", "sendrecv"};

/// Letters alone, in lower case, without "perf" and with one spelling of all-to-all.
std::string bare(const std::string& name) {
  std::string word;
  for (const char c : name) {
    if (c >= 'a' && c <= 'z') word += c;
    if (c >= 'A' && c <= 'Z') word += static_cast<char>(c - 'A' + 'a');
  }
  if (word.ends_with("perf")) word.resize(word.size() - 4);
  return word;
}

}  // namespace

const char* name_of(Collective collective) {
  return collective_names[static_cast<int>(collective)];
}

std::optional<Collective> collective_of(const std::string& name) {
  for (int i = 0; i < collective_count; ++i) {
    if (bare(name) == bare(collective_names[i])) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

double link_bytes_per_byte(const Setting& setting, LinkReach reach) {
  const double n = setting.ranks;
  const double per_host = n / setting.hosts;
  const bool between = reach == LinkReach::fabric;
  if (between && setting.hosts == 1) return 0;
  switch (setting.collective) {
    case Collective::alltoall:
      return between ? (n - per_host) / n : (n - 1) / n;
    case Collective::sendrecv:
      return 1;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_reduce:
      if (between && per_host > 1) return 0;
      return (n - 1) / n * (setting.collective == Collective::all_reduce ? 2 : 1);
  }
  return 0;
}

}  // namespace moesim
