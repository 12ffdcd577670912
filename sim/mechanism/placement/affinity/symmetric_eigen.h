// SPDX-License-Identifier: Apache-2.0
// Eigenvectors of symmetric matrices, the same on every machine.
#pragma once

#include <vector>

namespace moesim {

/// Row-major n x n.
struct SquareMatrix {
  int n = 0;
  std::vector<double> values;

  explicit SquareMatrix(int size)
      : n(size), values(static_cast<std::size_t>(size) * static_cast<std::size_t>(size)) {}
  double& at(std::size_t i, std::size_t j) { return values[i * static_cast<std::size_t>(n) + j]; }
  double at(std::size_t i, std::size_t j) const {
    return values[i * static_cast<std::size_t>(n) + j];
  }
};

struct Eigensystem {
  std::vector<double> values;  // descending
  SquareMatrix vectors;        // row i belongs to values[i], of length 1
};

/// All eigenvalues and eigenvectors: Householder's reduction to three diagonals, then QL steps with
/// Wilkinson's shift (Golub and Van Loan, "Matrix Computations", chapter 8). Only IEEE operations
/// in a fixed order, so no library decides the last bits. Throws std::runtime_error when it does
/// not converge, which only matrices with NaN or infinity do.
Eigensystem symmetric_eigen(SquareMatrix matrix);

}  // namespace moesim
