// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/expert_shape.h"

#include "realhw/core/numbers.h"

namespace moesim {
namespace {

std::vector<float> matrix(int layer, ExpertId expert, int number, std::int64_t rows,
                          std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    fill_parameters(layer, expert, number, row, rows,
                    {values.data() + row * columns, static_cast<std::size_t>(columns)});
  }
  return values;
}

}  // namespace

ExpertWeights::ExpertWeights(const ExpertShape& shape, int layer, ExpertId expert)
    : w1(matrix(layer, expert, 0, shape.hidden, shape.up())),
      w2(matrix(layer, expert, 1, shape.ffn, shape.hidden)) {}

}  // namespace moesim
