// SPDX-License-Identifier: Apache-2.0
// Which hosts NVLink joins, by what NCCL says and by what it was told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "sim/linkfit/logs/nccl_lines.h"
#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;

MadeLog trays(int ranks) {
  MadeLog made;
  made.ranks = ranks;
  made.per_host = 4;
  made.factor = (ranks - 1.0) / ranks;
  made.gpu = "NVIDIA GB200";
  return made;
}

/// The log with a line of NCCL per rank, each of a domain of so many.
std::string in_domains(const MadeLog& made, int domain) {
  std::string lines;
  for (int r = 0; r < made.ranks; ++r) {
    lines += fmt::format(
        "node{}:{}:4100 [0] NCCL INFO MNNVL 1 cliqueId 7ffe cliqueSize {} cliqueRank {}\n",
        r / made.per_host, 4000 + r, domain, r % domain);
  }
  return made.header() + lines + with(made.text(), made.header(), "");
}

TEST(NvlinkDomains, HaveTheSizeThatNcclSays) {
  const Log log = read_made(in_domains(trays(24), 8));
  EXPECT_EQ(log.what, "alltoall, 24 ranks, between 3 NVLink domains of 6 hosts");
  EXPECT_THAT(log.notes, Contains(HasSubstr("since NCCL says cliqueSize 8")));
  EXPECT_EQ(log.samples.at(0).bytes, Bytes((1 << 20) * 16 / 24));
  EXPECT_EQ(read_made(in_domains(trays(128), 64)).what,
            "alltoall, 128 ranks, between 2 NVLink domains of 32 hosts");
  EXPECT_EQ(read_made(in_domains(trays(24), 24)).what,
            "alltoall, 24 ranks, inside an NVLink domain of 6 hosts");
  LogChoice choice;
  choice.reach = LinkReach::fabric;
  EXPECT_EQ(read_made(in_domains(trays(24), 8), choice).what,
            "alltoall, 24 ranks, between 3 NVLink domains of 6 hosts");
  choice.domain = 12;
  EXPECT_EQ(read_made(in_domains(trays(24), 8), choice).what,
            "alltoall, 24 ranks, between 2 NVLink domains of 6 hosts");
}

TEST(NvlinkDomains, MustBeAlike) {
  std::string text = in_domains(trays(24), 8);
  text = with(text, "cliqueSize 8", "cliqueSize 16");
  EXPECT_THAT(refusal_of(text),
              HasSubstr("NVLink domains that are not alike: of 8 and of 16 GPUs"));
}

constexpr const char* between_hosts = "alltoall, 8 ranks, between 2 hosts";
constexpr const char* in_a_domain = "alltoall, 8 ranks, inside an NVLink domain of 2 hosts";

TEST(NvlinkDomains, EndAtTheHostIfTheEnvironmentSaysSo) {
  const std::string text = trays(8).text();
  for (const char* said :
       {"+ mpirun -np 8 -H n1:4,n2:4 -x NCCL_MNNVL_ENABLE=0 ./build/alltoall_perf -b 1M",
        "export NCCL_MNNVL_ENABLE=0\nsrun ./build/alltoall_perf -b 1M",
        "NCCL_MNNVL_ENABLE=\"0\" mpirun ./alltoall_perf", "setenv NCCL_MNNVL_ENABLE 0",
        "mpirun -np 8 \\\n  -x NCCL_MNNVL_ENABLE=0 \\\n  ./alltoall_perf",
        "  - name: NCCL_MNNVL_ENABLE\n    value: \"0\"", "#SBATCH --export=ALL,NCCL_MNNVL_ENABLE=0",
        "node0:4000:4000 [0] NCCL INFO NCCL_MNNVL_ENABLE set by environment to 0."}) {
    const Log log = read_made(said + std::string("\n") + text);
    EXPECT_EQ(log.what, between_hosts) << said;
    EXPECT_THAT(log.notes, Contains(HasSubstr("since NCCL_MNNVL_ENABLE is 0"))) << said;
  }
  const MadeLog made = trays(8);
  const std::string info =
      "node0:4000:4000 [0] NCCL INFO NCCL_MNNVL_ENABLE set by environment to 0.\n";
  EXPECT_EQ(read_made(made.header() + info + with(text, made.header(), "")).what, between_hosts);
  EXPECT_EQ(read_made("export NCCL_MNNVL_ENABLE=2\n" + text).what, in_a_domain);
  EXPECT_EQ(read_made("export NCCL_MNNVL_ENABLE=1\n" + text).what, in_a_domain);
}

TEST(NvlinkDomains, OfACommandAreOfItsTest) {
  const std::string text = trays(8).text();
  const std::string off = "mpirun -x NCCL_MNNVL_ENABLE=0 ./alltoall_perf\n";
  LogChoice choice;
  choice.test = 1;
  EXPECT_EQ(read_made(off + text + "mpirun ./alltoall_perf\n" + text, choice).what, between_hosts);
  EXPECT_EQ(read_made("mpirun ./alltoall_perf\n" + text + off + text, choice).what, in_a_domain);
  choice.test = 2;
  EXPECT_EQ(read_made(off + text + "mpirun ./alltoall_perf\n" + text, choice).what, in_a_domain);
  EXPECT_EQ(read_made("mpirun ./alltoall_perf\n" + text + off + text, choice).what, between_hosts);
  for (const char* all :
       {"export NCCL_MNNVL_ENABLE=0\n", "export NCCL_MNNVL_ENABLE=0; srun ./a2a\n"}) {
    EXPECT_EQ(read_made(all + text + text, choice).what, between_hosts) << all;
  }
}

TEST(NvlinkDomains, AreNotToldByWhatIsWrittenOfTheEnvironment) {
  const std::string text = trays(8).text();
  for (const char* said :
       {"#export NCCL_MNNVL_ENABLE=0", "  # export NCCL_MNNVL_ENABLE=0",
        "##SBATCH --export=ALL,NCCL_MNNVL_ENABLE=0", "#NCCL_MNNVL_ENABLE=0",
        "// setenv(\"NCCL_MNNVL_ENABLE\", \"0\", 1);",
        "export NCCL_DEBUG=INFO # NCCL_MNNVL_ENABLE=0",
        "Without NVLink (NCCL_MNNVL_ENABLE=0) it was slower.",
        "If I set NCCL_MNNVL_ENABLE=0 the test uses the NICs.",
        "NCCL_MNNVL_ENABLE=0 gives half of that, see below.",
        "NCCL_MNNVL_ENABLE=0 -> 45 GB/s, NCCL_MNNVL_ENABLE=2 -> 80 GB/s",
        "With mpirun -x NCCL_MNNVL_ENABLE=0 we have half of that",
        "NCCL_MNNVL_ENABLE: 0 is off, 1 on", "| NCCL_MNNVL_ENABLE | 0 to disable |",
        "export NCCL_MNNVL_ENABLE=0\nunset HOME NCCL_MNNVL_ENABLE",
        "export NCCL_MNNVL_ENABLE=0\nexport NCCL_MNNVL_ENABLE=",
        "export NCCL_MNNVL_ENABLE=0\nenv -u NCCL_MNNVL_ENABLE mpirun ./alltoall_perf",
        "# - name: NCCL_MNNVL_ENABLE\n#   value: \"0\""}) {
    EXPECT_EQ(read_made(said + std::string("\n") + text).what, in_a_domain) << said;
  }
}

TEST(NvlinkDomains, EndAtTheHostBySettingsInManyForms) {
  const std::string text = trays(8).text();
  for (const char* said :
       {"{name: NCCL_MNNVL_ENABLE, value: \"0\"}",
        "- value: \"0\"\n  name: NCCL_MNNVL_ENABLE",
        "  NCCL_MNNVL_ENABLE: \"0\"",
        "os.environ[\"NCCL_MNNVL_ENABLE\"] = \"0\"",
        "`NCCL_MNNVL_ENABLE`: `0`",
        "mpiexec -genv NCCL_MNNVL_ENABLE 0 -n 8 ./alltoall_perf",
        "docker run -e NCCL_MNNVL_ENABLE=0 img mpirun ./alltoall_perf",
        "mpirun --mca mca_base_env_list \"NCCL_DEBUG=INFO;NCCL_MNNVL_ENABLE=0\" ./a2a",
        "srun --export=ALL,NCCL_MNNVL_ENABLE=0 ./alltoall_perf",
        "NCCL_MNNVL_ENABLE=0\nHOME=/r",
        "export NCCL_DEBUG=INFO NCCL_MNNVL_ENABLE=0 # not 1",
        "$ env NCCL_MNNVL_ENABLE=0 ./run",
        "root@n1:~# export NCCL_MNNVL_ENABLE=0",
        "n1: export NCCL_MNNVL_ENABLE=0",
        "NCCL_MNNVL_ENABLE=0 \\\n  mpirun ./alltoall_perf",
        "mpirun -x NCCL_MNNVL_ENABLE=0 \\",
        "12:00:01 + export NCCL_MNNVL_ENABLE=0",
        "if true; then export NCCL_MNNVL_ENABLE=0; fi",
        "+ bash -c 'export NCCL_MNNVL_ENABLE=0; ./alltoall_perf -g 4'",
        "n1:1:2 [0] NCCL INFO NCCL_MNNVL_ENABLE set by config file /etc/nccl.conf to 0."}) {
    EXPECT_EQ(read_made(said + std::string("\n") + text).what, between_hosts) << said;
  }
}

TEST(NvlinkDomains, OfOneRunAreNotOfLaterRuns) {
  const std::string text = trays(8).text();
  LogChoice first, second;
  first.test = 1;
  second.test = 2;
  for (const auto& [off, next] : std::vector<std::pair<std::string, std::string>>{
           {"$ NCCL_MNNVL_ENABLE=0 ./run.sh\n", "$ ./run.sh\n"},
           {"$ env NCCL_MNNVL_ENABLE=0 ./run.sh\n", "$ ./run.sh\n"},
           {"### NCCL_MNNVL_ENABLE=0\n", "### default\n"},
           {"+ NCCL_MNNVL_ENABLE=0\n+ ./run.sh\n", "+ ./run.sh\n"},
           {"#!/bin/bash\nexport NCCL_MNNVL_ENABLE=0\n", "#!/bin/bash\nexport NCCL_DEBUG=INFO\n"},
           {"$ kubectl apply -f x.yaml\n- name: NCCL_MNNVL_ENABLE\n  value: \"0\"\n",
            "$ kubectl apply -f y.yaml\n"},
           {"$ export NCCL_MNNVL_ENABLE=0\n", "$ unset NCCL_MNNVL_ENABLE\n"}}) {
    const std::string both = off + text + next + text;
    EXPECT_EQ(read_made(both, first).what, between_hosts) << off;
    EXPECT_EQ(read_made(both, second).what, in_a_domain) << off;
  }
  const std::string again =
      "$ sbatch a.sh\n#SBATCH --export=ALL,NCCL_MNNVL_ENABLE=0\n" + text + "$ sbatch a.sh\n" + text;
  EXPECT_EQ(read_made(again, second).what, between_hosts);
  EXPECT_EQ(read_made("$ NCCL_MNNVL_ENABLE=0 ./setup.sh\n$ ./run.sh\n" + text).what, in_a_domain);
}

TEST(NvlinkDomains, AreThoseThatNcclHadToUse) {
  MadeLog made = trays(8);
  made.gpu = "NVIDIA GH200 144G HBM3e";
  EXPECT_EQ(read_made(made.text()).what, between_hosts);
  const Log log = read_made("mpirun -x NCCL_MNNVL_ENABLE=1 ./alltoall_perf\n" + made.text());
  EXPECT_EQ(log.what, in_a_domain);
  EXPECT_THAT(log.notes, Contains(HasSubstr("since NCCL_MNNVL_ENABLE is 1")));
  made.gpu = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(read_made("export NCCL_MNNVL_ENABLE=1\n" + made.text()).what, between_hosts);
}

TEST(NvlinkDomains, OfJsonEndAtTheHostIfItsEnvironmentSaysSo) {
  std::string text = read_file(MOESIM_ROOT "/tests/fixtures/logs/alltoall-4.json");
  text = with(text, "\"ngpus\":8", "\"ngpus\":4");
  const std::size_t begin = text.find("[{\"rank\"") + 1;
  std::string device = with(text.substr(begin, text.find("]", begin) - begin), "Test GPU", "GB200");
  text.replace(begin, text.find("]", begin) - begin,
               device + "," + with(with(device, "\"rank\":0", "\"rank\":4"), "node0", "node1"));
  EXPECT_EQ(read_made(text).what, in_a_domain);
  for (const char* env : {R"(["NCCL_MNNVL_ENABLE=0"])", R"({"NCCL_MNNVL_ENABLE":"0"})",
                          R"([{"name":"NCCL_MNNVL_ENABLE","value":"0"}])"}) {
    EXPECT_EQ(read_made(with(text, "\"env\":[]", std::string("\"env\":") + env)).what,
              between_hosts)
        << env;
  }
  const char* more = R"("events":[{"timestamp":1,"message":"begun"}],"env":[])";
  EXPECT_EQ(read_made(with(text, "\"env\":[]", more)).what, in_a_domain);
}

}  // namespace
}  // namespace moesim
