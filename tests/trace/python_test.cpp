// SPDX-License-Identifier: Apache-2.0
// The Python in docs/trace-format.md writes a trace.
#include <cstdlib>

#include "sim/trace/verify.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

/// A Python that has NumPy, or nothing.
std::string python() {
  for (const std::string name : {"python3", "/usr/bin/python3"}) {
    if (std::system((name + " -c 'import numpy' 2>/dev/null").c_str()) == 0) return name;
  }
  return "";
}

TEST(Python, OfTheDocumentationWritesASoundTrace) {
  const std::string interpreter = python();
  if (interpreter.empty()) GTEST_SKIP() << "no Python with NumPy";
  const std::string page = read_bytes(std::string(MOESIM_ROOT) + "/docs/trace-format.md");
  const std::string fence = "```python\n";
  const auto begin = page.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const auto end = page.find("```", begin + fence.size());
  ScratchFolder scratch;
  write_bytes(scratch / "write.py", page.substr(begin + fence.size(), end - begin - fence.size()));
  ASSERT_EQ(std::system(("cd " + scratch.path() + " && " + interpreter + " write.py").c_str()), 0);
  EXPECT_TRUE(verify_trace(scratch / "my-run").empty());
  const auto trace = RoutingTrace::open(scratch / "my-run");
  EXPECT_EQ(trace.total_tokens(), 6);
  EXPECT_EQ(trace.info().experts, 8);
}

}  // namespace
}  // namespace moesim
