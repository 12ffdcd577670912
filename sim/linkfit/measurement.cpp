// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/measurement.h"

namespace moesim {
namespace {

constexpr const char* collective_names[] = {"alltoall",   "all_gather", "reduce_scatter",
                                            "all_reduce", "sendrecv",   "broadcast",
                                            "reduce",     "gather",     "scatter"};

/// Only the letters of a program's name, in lower case, without folders and without "perf" and what
/// follows it: builds add suffixes such as "_mpi".
std::string bare(const std::string& name) {
  std::string word;
  for (const char c : name.substr(name.rfind('/') + 1)) {
    if (c >= 'a' && c <= 'z') word += c;
    if (c >= 'A' && c <= 'Z') word += static_cast<char>(c - 'A' + 'a');
  }
  return word.substr(0, word.find("perf"));
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

int rounds_of(const Setting& setting) {
  const int hops = setting.ranks - 1;
  switch (setting.collective) {
    case Collective::alltoall:
    case Collective::gather:
    case Collective::scatter:
    case Collective::sendrecv:
      return 1;
    case Collective::all_reduce:
      return 2 * hops;
    default:
      return hops;
  }
}

double link_bytes_per_byte(const Setting& setting, LinkReach reach) {
  const double n = setting.ranks;
  const double per_host = setting.fewest > 0 ? setting.fewest : setting.ranks / setting.hosts;
  const bool between = reach == LinkReach::fabric;
  if (between && setting.hosts == 1) return 0;
  const double nics = between ? per_host : 1;
  switch (setting.collective) {
    case Collective::alltoall:
    case Collective::gather:
    case Collective::scatter:
      return between ? (n - per_host) / n : (n - 1) / n;
    case Collective::sendrecv:
      return 1;
    case Collective::broadcast:
    case Collective::reduce:
      return 1 / nics;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return (n - 1) / n / nics;
    case Collective::all_reduce:
      return 2 * (n - 1) / n / nics;
  }
  return 0;
}

}  // namespace moesim
