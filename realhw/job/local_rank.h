// SPDX-License-Identifier: Apache-2.0
// Which of its host's ranks a rank is.
#pragma once

#include "realhw/job/job.h"

namespace moesim {

/// 0 for the first rank of a host; all ranks together. Where the launcher says so on every rank, it
/// is the launcher's number (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID,
/// SLURM_LOCALID), else how many lower ranks have this host's name. A launcher that shows every
/// rank only one GPU makes it a number beyond the visible ones.
int local_rank(Job& job);

}  // namespace moesim
