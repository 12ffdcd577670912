// SPDX-License-Identifier: Apache-2.0
// The shipped GPU models against kernels that we timed (tests/kernels), to which nothing was
// fitted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/base/data_files.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

using TimedKernel = std::map<std::string, std::string>;
using TimedKernels = std::vector<TimedKernel>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}

TimedKernels read_cases(const std::string& name) {
  std::ifstream file(fmt::format("{}/tests/kernels/{}", MOESIM_ROOT, name));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = cells_of(line);
  TimedKernels cases;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    TimedKernel next;
    for (std::size_t i = 0; i < names.size(); ++i) next[names[i]] = cells.at(i);
    cases.push_back(next);
  }
  return cases;
}

std::int64_t number(const TimedKernel& timed, const char* name) {
  return std::stoll(timed.at(name));
}
int integer(const TimedKernel& timed, const char* name) {
  return static_cast<int>(number(timed, name));
}

struct Shape {
  Kernel kernel;
  OpType op;
};

Shape dense_product(const TimedKernel& timed) {
  const DataType type = timed.at("type") == "fp8" ? DataType::fp8 : DataType::bf16;
  return {GroupedGemm{{number(timed, "m")}, number(timed, "n"), number(timed, "k"), type},
          {OpKind::fc1}};
}

/// As scripts/gpu_kernels.py makes them: by Zipf's law, in multiples of 8.
std::vector<std::int64_t> loads_of(const TimedKernel& timed) {
  const std::int64_t experts = number(timed, "experts"), rows = number(timed, "rows");
  std::vector<std::int64_t> loads(static_cast<std::size_t>(experts));
  if (timed.at("loads") != "zipf") {
    const std::int64_t activated = number(timed, "activated");
    std::fill_n(loads.begin(), activated, rows / activated);
    return loads;
  }
  std::int64_t each = 16;
  while (each * experts < rows) each *= 4;
  double parts = 0;
  for (std::int64_t e = 1; e <= experts; ++e) parts += 1.0 / static_cast<double>(e);
  for (std::size_t e = 0; e < loads.size(); ++e) {
    const double load = static_cast<double>(each * experts) / parts / static_cast<double>(e + 1);
    loads[e] = static_cast<std::int64_t>(load) / 8 * 8;
  }
  return loads;
}

Shape product_of_experts(const TimedKernel& timed) {
  const bool of_inputs = timed.at("pass") == "inputs";
  const Role role = timed.at("pass") == "weights" ? Role::wgrad
                    : of_inputs                   ? Role::dgrad
                                                  : Role::plain;
  return {GroupedGemm{loads_of(timed), number(timed, of_inputs ? "k" : "n"),
                      number(timed, of_inputs ? "n" : "k")},
          {OpKind::fc1, role, role == Role::plain ? Pass::forward : Pass::backward}};
}

Shape attention(const TimedKernel& timed) {
  const std::int64_t length = number(timed, "length");
  const AttentionHeads heads{
      integer(timed, "heads"), integer(timed, "kv_heads"),
      integer(timed, "qk"),    integer(timed, "v"),
      DataType::bf16,          timed.at("pass") == "backward" ? Pass::backward : Pass::forward};
  return {FusedAttention{number(timed, "batch") * length, length / 2, heads},
          {OpKind::attention_scores}};
}

Shape rows(const TimedKernel& timed) {
  const bool moves = timed.at("kernel").find("rows") != std::string::npos;
  const Bytes half(number(timed, "bytes") / 2);
  return {MemoryBound{half, half}, {moves ? OpKind::permute : OpKind::norm}};
}

/// Rows of a section whose columns have these texts, of so many rows per expert or product.
struct Sort {
  explicit Sort(const TimedKernel& bound) : section(bound.at("section")), size(bound.at("size")) {
    std::istringstream text(bound.at("where"));
    for (std::string part; std::getline(text, part, ';');) {
      const std::size_t equals = part.find('=');
      is[part.substr(0, equals)] = part.substr(equals + 1);
    }
    at_least = number(bound, "from");
    if (!bound.at("below").empty()) below = number(bound, "below");
  }

  bool holds(const TimedKernel& timed) const {
    for (const auto& [name, text] : is) {
      if (timed.at(name) != text) return false;
    }
    std::int64_t rows = number(timed, size.c_str());
    if (timed.contains("experts")) rows /= number(timed, "experts");
    return rows >= at_least && rows < below;
  }

  std::string section, size;
  TimedKernel is;
  std::int64_t at_least = 0, below = 1LL << 40;
};

const std::map<std::string, Shape (*)(const TimedKernel&)> shapes = {
    {"gemm", dense_product},
    {"grouped", product_of_experts},
    {"attention", attention},
    {"memory", rows}};

/// bounds.csv has the most that the median of |simulated / timed - 1| may be, in %.
TEST(TimedKernels, AreAsLongAsSimulated) {
  const TimedKernels bounds = read_cases("bounds.csv");
  ASSERT_FALSE(bounds.empty());
  for (const TimedKernel& bound : bounds) {
    const Sort sort(bound);
    for (const char* gpu : {"h100", "h200"}) {
      const GpuModel model =
          read_gpu_model(data_file("models/gpu", fmt::format("{}-measured", gpu)));
      std::vector<double> sizes, errors;
      for (const TimedKernel& timed : read_cases(fmt::format("{}/{}.csv", gpu, sort.section))) {
        if (!sort.holds(timed)) continue;
        const auto& [kernel, op] = shapes.at(sort.section)(timed);
        errors.push_back(100 * (model.time(kernel, op).value / std::stod(timed.at("seconds")) - 1));
        sizes.push_back(std::abs(errors.back()));
      }
      const std::string what =
          fmt::format("{} {} {} from {}", gpu, sort.section, bound.at("where"), sort.at_least);
      ASSERT_GE(sizes.size(), 4U) << what;
      std::ranges::sort(sizes);
      std::ranges::sort(errors);
      const double median = sizes[sizes.size() / 2];
      fmt::print("{}: {} cases, {:.0f}, {:.0f}, {:+.0f} %\n", what, sizes.size(), median,
                 sizes[sizes.size() * 9 / 10], errors[errors.size() / 2]);
      EXPECT_LE(median, std::stod(bound.at(gpu))) << what;
    }
  }
}

}  // namespace
}  // namespace moesim
