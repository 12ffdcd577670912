// SPDX-License-Identifier: Apache-2.0
// Profiles of Nsight Systems, as databases.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>

#include "sim/profile/profile_text.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// Makes a SQLite file of these statements; returns its path.
std::string database(const ProfileFiles& files, const std::string& statements) {
  const std::string path = files.write("a.sqlite", "");
  sqlite3* file = nullptr;
  EXPECT_EQ(::sqlite3_open(path.c_str(), &file), SQLITE_OK);
  EXPECT_EQ(::sqlite3_exec(file, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  ::sqlite3_close(file);
  return path;
}

/// Kernels of three columns (start, end, deviceId), then stream, correlation, name and process.
std::string nsys_kernels(const std::string& rows) {
  return "CREATE TABLE StringIds (id INTEGER, value TEXT);"
         "INSERT INTO StringIds VALUES (5, 'nvjet_x');"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
         " streamId INTEGER, correlationId INTEGER, demangledName INTEGER, globalPid INTEGER);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES " +
         rows + ";";
}

TEST(Nsys, IsRead) {
  const ProfileFiles files;
  const std::string path = database(
      files,
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,"
      " streamId INTEGER, correlationId INTEGER, demangledName INTEGER);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INTEGER, end INTEGER);"
      "INSERT INTO StringIds VALUES (5, 'nvjet_x'), (6, 'ncclDevKernel_AllReduce_x');"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 0, 7, 1, 5),"
      " (2000, 6000, 0, 9, 2, 6), (8000, 9000, 0, 7, 3, 5);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (3, 7000);");
  const ReadProfile read = read_files({path});
  const ProfileReport report(read);
  const RankTime& time = report.ranks.at(0);
  EXPECT_EQ(read.profile.producer, "Nsight Systems");
  EXPECT_EQ(time.wall, 8 * us);
  EXPECT_EQ(time.both, 1 * us);
  EXPECT_EQ(time.traffic_only, 3 * us);
  EXPECT_EQ(time.idle, 2 * us);
  EXPECT_EQ(time.host, 1 * us);
  EXPECT_EQ(read.profile.bytes, static_cast<std::int64_t>(std::filesystem::file_size(path)));
}

TEST(Nsys, DevicesAreOfTheirProcesses) {
  constexpr std::int64_t first = 100LL << 24, second = 101LL << 24;
  const std::string rows = fmt::format(
      "(1000, 3000, 0, 7, 1, 5, {0}), (2000, 6000, 0, 7, 1, 5, {1}), (7000, 8000, 0, 7, 2, 5, {1})",
      first, second);
  const std::string launches = fmt::format(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (correlationId INTEGER, end INTEGER, globalTid "
      "INTEGER); INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 500, {}), (1, 1500, {});",
      first + 9, second + 9);
  const auto ranks = [&](const std::string& devices) {
    const ProfileFiles files;
    return read_files({database(files, nsys_kernels(rows) + launches + devices)}).profile.ranks;
  };
  const auto devices = [](const std::string& of_second) {
    return "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, "
           "uuid TEXT); INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 100, 'GPU-a'), " +
           of_second + ";";
  };
  for (const std::string& known : {devices("(5, 0, 101, 'GPU-b')"), std::string()}) {
    const auto two = ranks(known);
    ASSERT_EQ(two.size(), 2U) << known;
    EXPECT_EQ(two[0].rank, 0);
    EXPECT_EQ(two[1].rank, 1);
    ASSERT_EQ(two[0].kernels.size(), 1U);
    ASSERT_EQ(two[1].kernels.size(), 2U);
    EXPECT_EQ(two[0].kernels[0].launch, us / 2);
    EXPECT_EQ(two[1].kernels[0].launch, 3 * us / 2) << "launches are of their process, too";
    EXPECT_EQ(two[1].kernels[1].launch, -1);
  }
  const auto one = ranks(devices("(4, 0, 101, 'GPU-a')"));
  ASSERT_EQ(one.size(), 1U) << "two processes share a GPU";
  EXPECT_THAT(one[0].streams, testing::ElementsAre("7", "7 of process 2"));
}

TEST(Nsys, LeavesOutTimesThatAreNone) {
  for (const char* end : {"NULL", "'x'", "1049995", "900000000000000", "1.5"}) {
    const ProfileFiles files;
    const ReadProfile read =
        read_files({database(files, nsys_kernels("(1000, 3000, 0, 7, 1, 5, 0), (1050000, " +
                                                 std::string(end) + ", 0, 8, 2, 5, 0)"))});
    EXPECT_EQ(read.profile.ranks.at(0).kernels.size(), 1U) << end;
    EXPECT_THAT(
        read.profile.notes,
        testing::ElementsAre("leaves out 1 kernel whose times are not times, first 'nvjet_x'"))
        << end;
    const ProfileFiles others;
    EXPECT_THAT(error_of_files(
                    {database(others, nsys_kernels("(NULL, NULL, NULL, NULL, NULL, NULL, NULL)"))}),
                HasSubstr("has no kernel with a valid start and length"));
  }
}

TEST(Nsys, RefusesACutFile) {
  const ProfileFiles files;
  const std::string path = database(files, nsys_kernels("(1000, 3000, 0, 7, 1, 5, 0)"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1000);
  EXPECT_THAT(error_of_files({path}), HasSubstr("a.sqlite: error: is cut short"));
}

TEST(Nsys, RefusesOthersDatabases) {
  const ProfileFiles files;
  EXPECT_THAT(error_of_files({files.write("a.sqlite", "SQLite format 3" + std::string(200, '\0'))}),
              HasSubstr("error"));
}

}  // namespace
}  // namespace moesim
