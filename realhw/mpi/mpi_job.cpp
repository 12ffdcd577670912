// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/mpi_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
// What threads of Open MPI never free is known by its libraries, so these stay loaded.
extern "C" int dlclose(void*) noexcept { return 0; }
extern "C" const char* __asan_default_options() { return "print_suppressions=0"; }
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpmix\nleak:mca_\nleak:libopen-\n";
}
#endif

namespace moesim {
namespace {

constexpr int job_tag = 0;

volatile std::sig_atomic_t told = 0;

extern "C" void on_sigterm(int) {
  told = 1;
  ::alarm(5);
}

}  // namespace

void check(int code, const char* caller) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(fmt::format("MPI, called in {}: {}", caller, std::string(text, length)));
}

namespace {

/// What Open MPI never frees of what it begins and ends with is not a leak of ours.
class LeaksOfMpi {
#ifdef __SANITIZE_ADDRESS__
  __lsan::ScopedDisabler disabled_;
#endif
};

}  // namespace

bool told_to_end() { return told != 0; }

MpiJob::MpiJob(int& argc, char**& argv) {
  [[maybe_unused]] const LeaksOfMpi leaks;
  int provided = 0;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_));
  if (provided < MPI_THREAD_FUNNELED) throw std::runtime_error("this MPI knows no threads");
  std::signal(SIGTERM, on_sigterm);
}

MpiJob::~MpiJob() {
  [[maybe_unused]] const LeaksOfMpi leaks;
  MPI_Finalize();
}

void MpiJob::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

std::vector<std::string> MpiJob::gather(const std::string& mine) {
  const bool first = rank_ == 0;
  const auto size = static_cast<int>(mine.size());
  std::vector<int> sizes(first ? ranks_ : 0), offsets(sizes.size());
  check(MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD));
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::string joined(first ? static_cast<std::size_t>(offsets.back() + sizes.back()) : 0, '\0');
  check(MPI_Gatherv(mine.data(), size, MPI_BYTE, joined.data(), sizes.data(), offsets.data(),
                    MPI_BYTE, 0, MPI_COMM_WORLD));
  std::vector<std::string> all;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    all.push_back(
        joined.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(sizes[r])));
  }
  return all;
}

std::string MpiJob::broadcast(const std::string& of_first) {
  auto size = static_cast<int>(of_first.size());
  check(MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD));
  std::string text = rank_ == 0 ? of_first : std::string(static_cast<std::size_t>(size), '\0');
  check(MPI_Bcast(text.data(), size, MPI_BYTE, 0, MPI_COMM_WORLD));
  return text;
}

void MpiJob::barrier() { check(MPI_Barrier(MPI_COMM_WORLD)); }

void MpiJob::send(int to, const std::string& message) {
  check(MPI_Send(message.data(), static_cast<int>(message.size()), MPI_BYTE, to, job_tag,
                 MPI_COMM_WORLD));
}

std::string MpiJob::receive(int from) {
  MPI_Status status;
  check(MPI_Probe(from, job_tag, MPI_COMM_WORLD, &status));
  int size = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &size));
  std::string message(static_cast<std::size_t>(size), '\0');
  check(MPI_Recv(message.data(), size, MPI_BYTE, from, job_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return message;
}

std::string MpiJob::launcher() const {
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
