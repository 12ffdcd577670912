// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/symmetric_eigen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

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

/// Heads of both signs, a column that is clear already, and blocks that split.
TEST(SymmetricEigenTest, SmallWholeNumbersOfBothSigns) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed, 5);
    const int n = 1 + static_cast<int>(random.below(6));
    SquareMatrix a(n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        a.at(i, j) = a.at(j, i) = static_cast<double>(random.below(5)) - 2;
      }
    }
    expect_eigensystem(a, symmetric_eigen(a), 1e-12);
  }
}

/// Only IEEE operations in a fixed order: every compiler and machine finds these bits.
TEST(SymmetricEigenTest, IsTheSameToTheLastBit) {
  SquareMatrix a(5);
  int entry = 7;
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      entry = (entry * 5 + 3) % 23;
      a.at(i, j) = a.at(j, i) = entry - 11;
    }
  }
  const std::vector<double> values = {0x1.660019352627ep+4, 0x1.9dee8612205c9p+3,
                                      -0x1.65235763fdc86p-2, -0x1.2af3ef6e71bf6p+3,
                                      -0x1.69e8d7296d7f6p+4};
  const std::vector<double> vectors = {
      0x1.65b74a3b56848p-2,  0x1.d84079868cae4p-5,  0x1.505805f4602f9p-1,  -0x1.4f33a1bc2afe5p-6,
      -0x1.54a7a50afedd2p-1, 0x1.de91c4637964ep-2,  -0x1.bcf493569ae43p-2, -0x1.34baf245c0eb3p-1,
      0x1.1397cd5b0aed7p-2,  -0x1.9567a1bdd513ep-2, -0x1.72b83ef644231p-1, -0x1.a1f01186738d1p-2,
      -0x1.2c88175f0eadcp-4, -0x1.160f8c1dad5d6p-2, -0x1.eb215575dbb2ep-2, -0x1.6d03f8b8cdfabp-2,
      0x1.ea8899751f21ap-2,  -0x1.ba40acd0f4bc9p-4, 0x1.7dcce5119de7dp-1,  -0x1.19ca7ee11efa5p-2,
      0x1.735470828bbc4p-4,  0x1.488fc2fa0442cp-1,  -0x1.bbc7a974c3c9ap-2, -0x1.172fe5a4920e5p-1,
      -0x1.3b5135349093cp-2};
  const Eigensystem eigen = symmetric_eigen(a);
  EXPECT_EQ(eigen.values, values);
  EXPECT_EQ(eigen.vectors.values, vectors);
  expect_eigensystem(a, eigen, 1e-13);
}

TEST(SymmetricEigenTest, NotANumberIsRefused) {
  SquareMatrix a(3);
  for (double& x : a.values) x = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(symmetric_eigen(a), std::runtime_error);
}

}  // namespace
}  // namespace moesim
