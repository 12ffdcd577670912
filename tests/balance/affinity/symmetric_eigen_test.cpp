// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/symmetric_eigen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

/// A v = lambda v, v . w = [v is w], values descending.
void expect_eigensystem(const SquareMatrix& a, const Eigensystem& eigen, double tolerance) {
  const auto n = static_cast<std::size_t>(a.n);
  ASSERT_EQ(eigen.values.size(), n);
  for (std::size_t k = 0; k < n; ++k) {
    if (k > 0) {
      EXPECT_GE(eigen.values[k - 1], eigen.values[k]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      double product = 0, dot = 0;
      for (std::size_t j = 0; j < n; ++j) {
        product += a.at(i, j) * eigen.vectors.at(k, j);
        dot += eigen.vectors.at(i, j) * eigen.vectors.at(k, j);
      }
      ASSERT_NEAR(product, eigen.values[k] * eigen.vectors.at(k, i), tolerance);
      ASSERT_NEAR(dot, i == k ? 1 : 0, tolerance);
    }
  }
}

TEST(SymmetricEigenTest, TwoByTwo) {
  SquareMatrix a(2);
  a.values = {2, 1, 1, 2};
  const Eigensystem eigen = symmetric_eigen(a);
  EXPECT_DOUBLE_EQ(eigen.values[0], 3);
  EXPECT_DOUBLE_EQ(eigen.values[1], 1);
  expect_eigensystem(a, eigen, 1e-14);
}

TEST(SymmetricEigenTest, PathOfEqualLinksHasCosinesForValues) {
  const int n = 12;
  SquareMatrix a(n);
  for (std::size_t i = 0; i + 1 < 12; ++i) a.at(i, i + 1) = a.at(i + 1, i) = 1;
  const Eigensystem eigen = symmetric_eigen(a);
  for (int k = 0; k < n; ++k) {
    EXPECT_NEAR(eigen.values[static_cast<std::size_t>(k)], 2 * std::cos(M_PI * (k + 1) / (n + 1)),
                1e-14);
  }
  expect_eigensystem(a, eigen, 1e-14);
}

TEST(SymmetricEigenTest, DiagonalEqualAndZeroValues) {
  SquareMatrix zero(5), diagonal(4), block(6);
  expect_eigensystem(zero, symmetric_eigen(zero), 0);
  for (std::size_t i = 0; i < 4; ++i) diagonal.at(i, i) = i < 2 ? 3 : -1;
  expect_eigensystem(diagonal, symmetric_eigen(diagonal), 1e-15);
  for (std::size_t i = 0; i < 6; ++i)  // two blocks of ones: 3, 3, 0, 0, 0, 0
    for (std::size_t j = 0; j < 6; ++j) block.at(i, j) = i / 3 == j / 3;
  const Eigensystem eigen = symmetric_eigen(block);
  EXPECT_NEAR(eigen.values[1], 3, 1e-14);
  EXPECT_NEAR(eigen.values[2], 0, 1e-14);
  expect_eigensystem(block, eigen, 1e-14);
}

TEST(SymmetricEigenTest, RandomMatricesOfManySizes) {
  for (const int n : {1, 2, 3, 7, 20, 64}) {
    Random random(static_cast<std::uint64_t>(n));
    SquareMatrix a(n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      for (std::size_t j = 0; j <= i; ++j) a.at(i, j) = a.at(j, i) = random.normal();
    expect_eigensystem(a, symmetric_eigen(a), 1e-12);
  }
}

TEST(SymmetricEigenTest, NotANumberIsRefused) {
  SquareMatrix a(3);
  for (double& x : a.values) x = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(symmetric_eigen(a), std::runtime_error);
}

}  // namespace
}  // namespace moesim
