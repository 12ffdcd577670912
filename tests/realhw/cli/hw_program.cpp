// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/cli/hw_program.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "realhw/cli/program.h"
#include "realhw/mpi/mpi_job.h"

namespace moesim {

Job& one_rank_of_mpi() {
  static int count = 0;
  static char** words = nullptr;
  static MpiJob job(count, words);
  return job;
}

HwSaid said_by_hw(Job& job, const std::vector<std::string>& words) {
  std::vector<std::string> all = with({"moesim-hw"}, words);
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  HwSaid said;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::string thrown;
  try {
    said.code = run_moesim_hw(static_cast<int>(arguments.size()), arguments.data(), job,
                              [&] { said.job_ended = true; });
  } catch (const std::exception& e) {
    thrown = e.what();
  }
  said.out = testing::internal::GetCapturedStdout();
  said.err = testing::internal::GetCapturedStderr();
  if (!thrown.empty()) throw std::runtime_error(thrown);
  return said;
}

HwSaid said_by_hw(const std::vector<std::string>& words) {
  return said_by_hw(one_rank_of_mpi(), words);
}

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> one_gpu() {
  return {"--topology", "h100-rail", "--set", "topology.nodes=1", "--set", "topology.node.gpus=1",
          "--model",    "tiny-moe",  "--set", "model.hidden=16"};
}

std::vector<std::string> one_step() {
  return with(one_gpu(),
              {"--set", "model.expert_ffn=8", "--trace", MOESIM_ROOT "/traces/tiny-moe-train",
               "--tokens-per-rank", "4", "--steps", "0", "--layers", "1"});
}

std::vector<std::string> run_one_step() {
  return with(with({"run"}, one_step()), {"--warmup-runs", "0", "--repeats", "1"});
}

void HardwareInFolder::SetUp() {
  folder_ = testing::TempDir() + "moesim-hw-XXXXXX";
  ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
}

void HardwareInFolder::TearDown() { std::filesystem::remove_all(folder_); }

std::vector<std::string> HardwareInFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace moesim
