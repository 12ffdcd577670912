// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/session.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

namespace moesim {

void check(int code, const char* caller) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(fmt::format("MPI, called in {}: {}", caller, std::string(text, length)));
}

MpiSession::MpiSession(int& argc, char**& argv) {
  int provided = 0;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_));
  if (provided < MPI_THREAD_FUNNELED) throw std::runtime_error("this MPI knows no threads");
}

MpiSession::~MpiSession() { MPI_Finalize(); }

void abort_all(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

int sum_over_ranks(int value) { return static_cast<int>(sums_over_ranks({value}).front()); }

std::vector<std::int64_t> sums_over_ranks(const std::vector<std::int64_t>& values) {
  std::vector<std::int64_t> sums(values.size());
  check(MPI_Allreduce(values.data(), sums.data(), static_cast<int>(values.size()), MPI_INT64_T,
                      MPI_SUM, MPI_COMM_WORLD));
  return sums;
}

std::vector<double> gather_on_first(const std::vector<double>& values) {
  int rank = 0, ranks = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  const auto count = static_cast<int>(values.size());
  std::vector<double> all(rank == 0 ? values.size() * static_cast<std::size_t>(ranks) : 0);
  check(MPI_Gather(values.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0,
                   MPI_COMM_WORLD));
  return all;
}

int count_hosts() {
  MPI_Comm host;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
  int place = 0;
  check(MPI_Comm_rank(host, &place));
  check(MPI_Comm_free(&host));
  return sum_over_ranks(place == 0 ? 1 : 0);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check(MPI_Get_library_version(text, &length));
  std::string version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));
  const std::string label = "MPICH Version:";  // and blanks
  if (!version.starts_with(label)) return version;
  return "MPICH " + version.substr(version.find_first_not_of(" \t", label.size()));
}

}  // namespace moesim
