// SPDX-License-Identifier: Apache-2.0
// moesim-hw in this process: as one rank of MPI, for clusters of one GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "realhw/job/job.h"

namespace moesim {

/// This process, which MPI takes for a job of one rank.
Job& one_rank_of_mpi();

struct HwSaid {
  int code = 0;
  std::string out, err;
  bool job_ended = false;
};

/// What moesim-hw prints and returns. The words follow its name.
HwSaid said_by_hw(const std::vector<std::string>& words);
HwSaid said_by_hw(Job& job, const std::vector<std::string>& words);

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more);

/// Flags of a cluster of one GPU and of a model of one narrow layer.
std::vector<std::string> one_gpu();
/// Flags of one step of four tokens on it.
std::vector<std::string> one_step();
/// `run`, that step, and one timed repeat.
std::vector<std::string> run_one_step();

/// Tests with a folder of their own. Its name is new: a process writes a file only once.
class HardwareInFolder : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  std::string in_folder(const std::string& name) const { return folder_ + "/" + name; }
  /// Names of the files there.
  std::vector<std::string> files() const;

 private:
  std::string folder_;
};

}  // namespace moesim
