// SPDX-License-Identifier: Apache-2.0
// The bytes of Chakra traces, by a reader that has the field numbers of et_def.proto.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <protozero/pbf_reader.hpp>
#include <protozero/varint.hpp>

#include "sim/export/chakra.h"
#include "tests/export/fixtures.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using test::exchange;
using test::gpus;
using test::kernels;
using test::matrix;
using test::reads;

/// "comm_src=0"
std::string attribute(protozero::pbf_reader message) {
  std::string name, value = "?";
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        name = message.get_string();
        break;
      case 7:
        value = fmt::format("{}", message.get_int32());
        break;
      case 9:
        value = fmt::format("{}L", message.get_int64());
        break;
      case 27:
        value = message.get_bool() ? "true" : "false";
        break;
      case 29:
        value = "'" + message.get_string() + "'";
        break;
      default:
        message.skip();
    }
  }
  return name + "=" + value;
}

/// "3 sort COMP after 1,2 for 2 us is_cpu_op=false ..."
std::string node(protozero::pbf_reader message) {
  std::string text;
  while (message.next()) {
    switch (message.tag()) {
      case 1:
        text += fmt::format("{}", message.get_uint64());
        break;
      case 2:
        text += " " + message.get_string();
        break;
      case 3:
        text += fmt::format(" kind {}", message.get_enum());
        break;
      case 5:
        for (const auto dep : message.get_packed_uint64()) text += fmt::format(" after {}", dep);
        break;
      case 7:
        text += fmt::format(" for {} us", message.get_uint64());
        break;
      case 10:
        text += " " + attribute(message.get_message());
        break;
      default:
        text += " ?";
        message.skip();
    }
  }
  return text;
}

/// The metadata and the nodes of a file, one a line.
std::string nodes_of(const std::string& file) {
  std::string text;
  const char* at = file.data();
  const char* const end = at + file.size();
  while (at != end) {
    const auto size = static_cast<std::size_t>(protozero::decode_varint(&at, end));
    protozero::pbf_reader message(at, size);
    if (text.empty()) {
      while (message.next()) {
        text += message.tag() == 2 ? " " + attribute(message.get_message()) : message.get_string();
      }
    } else {
      text += node(message);
    }
    text += "\n";
    at += size;
  }
  return text;
}

/// A kernel waits for what it needs and for the one before it on its stream, which may be the same.
/// Two kernels on both GPUs, 1.4 us each on one and 3 us on the other; then 0 -> 1 and what stays.
Plan two_ranks() {
  Plan plan;
  plan.name = "small";
  plan.gpus = 2;
  const std::vector<Kernel> each = {reads(1400), reads(3000)};
  plan.add(kernels("permute", {0, 1}, {}, Kernels(each)));
  plan.add(kernels("sort", {0, 1}, {0}, Kernels(each)));
  plan.add(exchange("dispatch", {0, 1}, matrix(2, 100, {{0, 1, 7}, {1, 1, 9}}), {1}));
  plan.add(kernels("unpermute", {1}, {2}, Kernels(reads(2000))));
  return plan;
}

TEST(ChakraBytes, HaveKernelsMessagesAndJoins) {
  const std::vector<std::string> files = to_chakra(two_ranks(), gpus(2));
  ASSERT_EQ(files.size(), 2U);
  // 1.4 and 2.8 us are a whole one and two more.
  EXPECT_EQ(nodes_of(files[0]),
            "0.0.4 plan='small'\n"
            "0 permute kind 4 for 1 us is_cpu_op=false num_ops=0L tensor_size=1400L\n"
            "1 sort kind 4 after 0 after 0 for 2 us is_cpu_op=false num_ops=0L tensor_size=1400L\n"
            "2 dispatch kind 5 after 1 is_cpu_op=false comm_src=0 comm_dst=1 comm_size=700L "
            "comm_tag=2\n"
            "3 dispatch kind 4 after 2 is_cpu_op=true\n");
  EXPECT_EQ(
      nodes_of(files[1]),
      "0.0.4 plan='small'\n"
      "0 permute kind 4 for 3 us is_cpu_op=false num_ops=0L tensor_size=3000L\n"
      "1 sort kind 4 after 0 after 0 for 3 us is_cpu_op=false num_ops=0L tensor_size=3000L\n"
      "2 dispatch kind 6 after 1 is_cpu_op=false comm_src=0 comm_dst=1 comm_size=700L "
      "comm_tag=2\n"
      "3 dispatch kind 4 after 2 is_cpu_op=true\n"
      "4 unpermute kind 4 after 1 after 3 for 2 us is_cpu_op=false num_ops=0L tensor_size=2000L\n");
}

TEST(ChakraBytes, CountOperationsOfGemms) {
  Plan plan;
  plan.gpus = 1;
  GroupedGemm gemm;
  gemm.m = {2, 3};
  gemm.n = 10;
  gemm.k = 100;
  plan.add(kernels("gemm", {0}, {}, Kernels(gemm)));
  auto model = std::make_shared<GpuModel>(*gpus(1)[0]);
  model->peak[DataType::bf16] = FlopsPerSecond(1e12);
  EXPECT_NE(nodes_of(to_chakra(plan, {model})[0]).find("num_ops=10000L"), std::string::npos);
}

}  // namespace
}  // namespace moesim
