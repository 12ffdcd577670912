// SPDX-License-Identifier: Apache-2.0
// The rows of fused kernels: their bytes, and how far they reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

MoeModel wide(DataType weights) {
  MoeModel model;
  model.hidden = 7168;
  model.top_k = 8;
  model.weights = weights;
  return model;
}

std::int64_t row(const std::string& text, DataType weights, Stage stage, Pass pass) {
  return make_dispatch(text, any_topology(), 0, wide(weights))->shape().wire(stage, pass).row.value;
}

// Values, a byte of scale for 32 (fp8) or 16 (fp4) of them, and a weight of 4 bytes.
TEST(FusedDispatch, RowsHaveTheirScales) {
  const auto out = [](const std::string& text, DataType weights) {
    return row(text, weights, Stage::dispatch, Pass::forward);
  };
  EXPECT_EQ(out("fused", DataType::bf16), 2 * 7168 + 4);
  EXPECT_EQ(out("fused", DataType::fp8), 7168 + 224 + 4);
  EXPECT_EQ(out("{kind: fused, type: fp4}", DataType::bf16), 3584 + 448 + 4);
  const std::string narrow = "{kind: fused, type: fp8, gradients: fp8, results: fp4}";
  EXPECT_EQ(row(narrow, DataType::bf16, Stage::combine, Pass::forward), 3584 + 448 + 4);
  EXPECT_EQ(row(narrow, DataType::bf16, Stage::dispatch, Pass::backward), 7168 + 224 + 4);
  EXPECT_EQ(row(narrow, DataType::bf16, Stage::combine, Pass::backward), 2 * 7168 + 4);
  EXPECT_EQ(make_dispatch(narrow, any_topology(), 0, wide(DataType::bf16))->row_form().name, "fp4");
}

TEST(FusedDispatch, StaysInOneNvlinkDomain) {
  const auto why = [](int nodes, int gpus) {
    return make_dispatch("fused", bare_nodes(nodes, gpus), 0, wide(DataType::bf16))->cannot_run();
  };
  EXPECT_EQ(why(1, 72), "");
  EXPECT_EQ(why(2, 4), "its kernel reaches the GPUs of one NVLink domain, an EP group has 2 hosts");
}

}  // namespace
}  // namespace moesim
