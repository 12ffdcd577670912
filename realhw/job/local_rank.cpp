// SPDX-License-Identifier: Apache-2.0
#include "realhw/job/local_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sim/base/error.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

/// -1 if the launcher says nothing.
int local_rank_of_launcher() {
  for (const char* name :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text = value;
    const int number = parse_integer<int>(text).value_or(-1);
    if (number < 0) throw Error(fmt::format("{}={}: expected a whole number from 0", name, text));
    return number;
  }
  return -1;
}

}  // namespace

int local_rank(Job& job) {
  const int told = local_rank_of_launcher();
  const bool all_told = sums_over_ranks(job, {told < 0 ? 1 : 0})[0] == 0;
  const auto hosts = all_gather(job, host_name());
  if (all_told) return told;
  const auto here = hosts.begin() + job.rank();
  return static_cast<int>(std::count(hosts.begin(), here, *here));
}

}  // namespace moesim
