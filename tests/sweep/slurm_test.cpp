// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SlurmJobs, ShardsAreTheTasksOfTheArray) {
  const SlurmJobs jobs =
      slurm_jobs({"/bin/moesim", "sweep", "it's.yaml"}, "f", "--partition=a --array=0-3%2");
  EXPECT_THAT(jobs.array, Contains("--array=0-3%2"));
  EXPECT_THAT(jobs.array, Contains("--requeue"));
  EXPECT_THAT(
      jobs.array.back(),
      HasSubstr(R"(exec '/bin/moesim' 'sweep' 'it'\''s.yaml' --shard "$SLURM_ARRAY_TASK_ID/4")"));
  EXPECT_THAT(jobs.merge, Contains("--partition=a"));
  EXPECT_THAT(jobs.merge, Not(Contains(HasSubstr("--array"))));
  EXPECT_THAT(jobs.merge.back(), HasSubstr("--merge"));
}

TEST(SlurmJobs, EveryJobHasItsNameAndLog) {
  const SlurmJobs jobs = slurm_jobs({"m", "a b"}, "out", "-p x");
  EXPECT_THAT(
      jobs.array,
      testing::ElementsAre("sbatch", "--parsable", "--requeue", "--open-mode=append",
                           "--job-name=moesim-sweep", "--output=out.slurm-%a.log", "--array=0-15",
                           "-p", "x", "--wrap=exec 'm' 'a b' --shard \"$SLURM_ARRAY_TASK_ID/16\""));
  EXPECT_THAT(jobs.merge,
              testing::ElementsAre("sbatch", "--parsable", "--requeue", "--open-mode=append",
                                   "--job-name=moesim-sweep", "--output=out.slurm-merge.log", "-p",
                                   "x", "--wrap=exec 'm' 'a b' --merge"));
  EXPECT_THAT(slurm_jobs({"m"}, "f", "--array=0-0").array.back(), HasSubstr("TASK_ID/1\""));
}

TEST(SlurmJobs, ArraysCountFromZero) {
  EXPECT_THAT(slurm_jobs({"m"}, "f", "").array, Contains("--array=0-15"));
  for (const char* array :
       {"--array=1-4", "--array=0,2", "--array=0-7:2", "--array=0--1", "--array="}) {
    EXPECT_THROW(slurm_jobs({"m"}, "f", array), Error) << array;
  }
}

}  // namespace
}  // namespace moesim
