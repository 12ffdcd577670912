// SPDX-License-Identifier: Apache-2.0
// What the flags of backends ask for, and which of them go together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/cli/commands.h"
#include "realhw/nccl/nccl_backend.h"
#include "tests/error_of.h"
#include "tests/flags/said_by.h"
#include "tests/realhw/cli/hw_program.h"
#include "tests/realhw/nccl/thread_job.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Gemm = CudaOptions::Gemm;

struct ReadBackendFlags {
  BackendFlags flags;
  std::string said;  // empty: they are right
};

ReadBackendFlags backend_flags(const std::vector<std::string>& words) {
  ReadBackendFlags read;
  CommandLine app("prog", "");
  read.flags.add_to(app);
  read.said = said_by(app, words);
  return read;
}

/// What opening the backend says, empty if it opens.
std::string said_by_opening(Job& job, const std::vector<std::string>& words) {
  const ReadBackendFlags read = backend_flags(words);
  EXPECT_THAT(read.said, IsEmpty());
  return error_of([&] { read.flags.open(job); });
}

TEST(HardwareBackendFlags, ChooseAmongKnownWords) {
  EXPECT_EQ(backend_flags({"--backend", "nccl"}).flags.backend, "nccl");
  EXPECT_EQ(backend_flags({"--mpi-calls", "alltoallv"}).flags.mpi_calls, "alltoallv");
  EXPECT_EQ(backend_flags({"--matrices", "bfloat16"}).flags.matrices, "bfloat16");
  EXPECT_EQ(backend_flags({"--gemm", "one-by-one"}).flags.gemm, "one-by-one");
  EXPECT_EQ(backend_flags({"--mpi-calls", "alltoal"}).said,
            "--mpi-calls alltoal is not known; did you mean 'alltoallv'?");
  EXPECT_EQ(backend_flags({"--backend", "cpu"}).said,
            "--backend cpu is not known; known: mpi, nccl");
  EXPECT_THAT(backend_flags({"--matrices", "float16"}).said,
              HasSubstr("--matrices float16 is not"));
  EXPECT_THAT(backend_flags({"--gemm", "stream"}).said, HasSubstr("--gemm stream is not known"));
}

TEST(HardwareBackendFlags, WaitAMicrosecondAtLeast) {
  EXPECT_EQ(backend_flags({"--timeout", "1e-6"}).flags.timeout, 1e-6);
  EXPECT_THAT(backend_flags({"--timeout", "0"}).said, HasSubstr("not in range"));
  EXPECT_THAT(backend_flags({"--timeout", "2e9"}).said, HasSubstr("not in range"));
}

TEST(HardwareBackendFlags, TellGpusHowToMultiplyAndHowLongToWait) {
  const NcclOptions usual = BackendFlags().nccl_options();
  EXPECT_EQ(usual.timeout.value, 30);
  EXPECT_TRUE(usual.graphs);
  EXPECT_EQ(usual.compile.matrices, RowFormat::float32);
  EXPECT_EQ(BackendFlags().cuda_options().gemm, Gemm::automatic);

  const BackendFlags other =
      backend_flags({"--timeout", "7", "--no-graph", "--matrices", "bfloat16"}).flags;
  EXPECT_EQ(other.nccl_options().timeout.value, 7);
  EXPECT_FALSE(other.nccl_options().graphs);
  EXPECT_EQ(other.nccl_options().compile.matrices, RowFormat::bfloat16);
  const std::pair<const char*, Gemm> ways[] = {{"automatic", Gemm::automatic},
                                               {"grouped", Gemm::grouped},
                                               {"one-by-one", Gemm::one_by_one},
                                               {"on-streams", Gemm::on_streams}};
  for (const auto& [word, way] : ways) {
    EXPECT_EQ(backend_flags({"--gemm", word}).flags.cuda_options().gemm, way) << word;
  }
}

TEST(HardwareBackendFlags, OfOneBackendDoNotGoWithTheOther) {
  ThreadRanks alone(1);
  ThreadJob job(alone, 0);
  const std::vector<std::vector<std::string>> of_mpi = {
      {"--mpi-calls", "alltoallv"}, {"--together"}, {"--fault", "kill:fc1@0"}};
  for (const auto& flag : of_mpi) {
    EXPECT_THAT(said_by_opening(job, with({"--backend", "nccl"}, flag)),
                HasSubstr("are of the backend 'mpi'"))
        << flag[0];
  }
  const std::vector<std::vector<std::string>> of_nccl = {
      {"--matrices", "bfloat16"}, {"--gemm", "grouped"}, {"--no-graph"}};
  for (const auto& flag : of_nccl) {
    EXPECT_THAT(said_by_opening(job, flag), HasSubstr("are of the backend 'nccl'")) << flag[0];
    EXPECT_THAT(said_by_opening(job, with({"--backend", "nccl"}, flag)),
                Not(HasSubstr("are of the backend")))
        << flag[0];
  }
}

TEST(HardwareBackendFlags, OfMpiNeedRanksThatMpiJoins) {
  ThreadRanks alone(1);
  ThreadJob job(alone, 0);
  EXPECT_THAT(said_by_opening(job, {}),
              HasSubstr("needs ranks that MPI joins; these were by threads"));
  EXPECT_EQ(said_by_opening(one_rank_of_mpi(), {}), "");
}

TEST(HardwareBackendFlags, SayHowExchangesGoOverMpi) {
  Job& job = one_rank_of_mpi();
  EXPECT_THAT(backend_flags({}).flags.open(job)->description(), HasSubstr("p2p"));
  EXPECT_THAT(backend_flags({"--mpi-calls", "alltoallv"}).flags.open(job)->description(),
              HasSubstr("alltoallv"));
}

TEST(HardwareBackendFlags, BreakOnlyRanksThatThereAre) {
  Job& job = one_rank_of_mpi();
  EXPECT_EQ(said_by_opening(job, {"--fault", "kill:fc1@0"}), "");
  EXPECT_THAT(said_by_opening(job, {"--fault", "kill:fc1@1"}), HasSubstr("there is no rank 1"));
  EXPECT_THAT(said_by_opening(job, {"--fault", "burn:fc1@0"}), HasSubstr("is not a fault"));
}

}  // namespace
}  // namespace moesim
