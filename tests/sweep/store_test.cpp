// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/sweep/claims.h"
#include "sim/sweep/parts.h"
#include "sim/sweep/statement.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const SweepAbout about{"hash", "grid.yaml", 4, {"topology.nodes", "policy"}};

SweepRow row(std::int64_t id, double time) {
  return {id, sweep_ok, "", {{"topology.nodes", integer_value(4)}, {"step_s", real_value(time)}}};
}

class StoreTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "s.sqlite") { return scratch_ / name; }
  ScratchFolder scratch_;
};

TEST_F(StoreTest, KeepsRowsWithTheirTypes) {
  SweepStore(path(), about).add({row(2, 0.1), {3, sweep_unsuitable, "too small", {}}});
  const SweepReader reader(path());
  EXPECT_EQ(reader.about().axes, about.axes);
  std::vector<SweepRow> rows;
  reader.rows([&](SweepRow r) { rows.push_back(std::move(r)); });
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(rows[0].figures.size(), 2U);
  EXPECT_EQ(rows[0].figures[0].value, integer_value(4));
  EXPECT_EQ(rows[0].figures[1].value, real_value(0.1));
  EXPECT_EQ(rows[1].reason, "too small");
}

TEST_F(StoreTest, FilesOfOthersAreOpenedWithGuards) {
  SweepStore(path(), about).add({row(2, 0.1)});
  sqlite3* db = open_database(path(), SQLITE_OPEN_READONLY);
  for (const auto& [guard, value] : {std::pair("trusted_schema", 0), {"cell_size_check", 1}}) {
    Statement statement(db, std::string("PRAGMA ") + guard);
    ASSERT_TRUE(statement.step()) << guard;
    EXPECT_EQ(statement.integer(0), value) << guard;
  }
  sqlite3_close(db);
}

TEST_F(StoreTest, FirstRowOfAnIdStays) {
  SweepStore store(path(), about);
  store.add({row(1, 0.5)});
  store.add({row(1, 0.7), row(0, 0.2)});
  EXPECT_THAT(store.ids(), ElementsAre(0, 1));
  const auto times = SweepReader(path()).query("SELECT step_s FROM scenarios ORDER BY id");
  EXPECT_EQ(times.rows[1][0]->real, 0.5);
}

TEST_F(StoreTest, WhatFailedIsTriedAgain) {
  SweepStore store(path(), about);
  store.add({{0, sweep_failed, "away", {}}, {1, sweep_unsuitable, "too small", {}}, row(2, 0.1)});
  EXPECT_THAT(store.ids(), ElementsAre(1, 2));
  EXPECT_THAT(ids_in(path(), about), ElementsAre(1, 2));
  store.add({row(0, 0.3), row(1, 0.3), {2, sweep_failed, "away", {}}});
  EXPECT_THAT(store.ids(), ElementsAre(0, 1, 2));
  store.replace({{0, sweep_failed, "stale", {}}, {2, sweep_failed, "stale", {}}});
  EXPECT_THAT(store.ids(), ElementsAre(1));
}

TEST_F(StoreTest, RefusesTextThatIsNotUtf8) {
  { SweepStore(path(), about).add({row(2, 0.1)}); }
  sqlite3* db = open_database(path(), SQLITE_OPEN_READWRITE);
  execute(db, "UPDATE scenarios SET reason = CAST(x'ff' AS TEXT)");
  sqlite3_close(db);
  EXPECT_THAT(error_of([&] { SweepReader(path()).query("SELECT * FROM scenarios"); }),
              HasSubstr("s.sqlite: error: text in the column 'reason' is not UTF-8"));
}

TEST_F(StoreTest, RefusesAnotherGridAnotherWriterAndOtherFiles) {
  SweepAbout other = about;
  other.grid = "else";
  { const SweepStore made(path(), about); }
  EXPECT_THAT(error_of([&] { SweepStore(path(), other); }), HasSubstr("another grid"));
  EXPECT_FALSE(std::filesystem::exists(lock_file(path())));
  EXPECT_THAT(SweepReader(path()).columns(),
              ElementsAre("id", "topology.nodes", "policy", "state", "reason"));
  EXPECT_THAT(error_of([&] { SweepStore(path("no/s"), about); }),
              HasSubstr("cannot write to this"));
  const SweepStore open(path(), about);
  EXPECT_THAT(error_of([&] { SweepStore(path(), about); }), HasSubstr("another sweep writes"));
  write_file(path("text"), "no database, though long enough to be looked at as one ...........");
  EXPECT_NE(error_of([&] { SweepReader(path("text")); }), "");
  EXPECT_THAT(error_of([&] { SweepReader(path("nowhere")); }), HasSubstr("no such file"));
}

TEST_F(StoreTest, LeavesFilesOfOthersAsTheyAre) {
  sqlite3* db = open_database(path("other"), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  execute(db, "CREATE TABLE mine (x)");
  sqlite3_close(db);
  write_file(path("text"), "topology: h100-rail\n");
  for (const char* name : {"other", "text"}) {
    const std::string before = read_file(path(name));
    EXPECT_THAT(error_of([&] { SweepStore(path(name), about); }),
                HasSubstr("this is not a file of a sweep"));
    EXPECT_EQ(read_file(path(name)), before);
  }
}

TEST_F(StoreTest, RefusesWhatNoSweepWrites) {
  const auto changed = [&](const std::string& sql) {
    std::filesystem::remove(path());
    { const SweepStore made(path(), about); }
    sqlite3* db = open_database(path(), SQLITE_OPEN_READWRITE);
    execute(db, sql);
    sqlite3_close(db);
    return error_of([&] { const SweepReader reader(path()); });
  };
  EXPECT_EQ(changed("UPDATE about SET value = '7' WHERE key = 'scenarios'"), "");
  for (const char* count : {"many", "-1", "9223372036854775808", ""}) {
    EXPECT_THAT(
        changed(fmt::format("UPDATE about SET value = '{}' WHERE key = 'scenarios'", count)),
        HasSubstr("does not tell its scenarios"));
  }
  for (const char* state : {"'weird'", "x'ff'", "NULL", "1"}) {
    const std::string sql = fmt::format("INSERT INTO scenarios (id, state) VALUES (3, {})", state);
    EXPECT_THAT(changed(sql), HasSubstr("is damaged: scenario 3 has another state than ok, "
                                        "unsuitable or failed\nhint: copy it again"));
    EXPECT_THAT(error_of([&] { SweepStore(path(), about); }), HasSubstr("scenario 3 has another"));
  }
  EXPECT_THAT(changed("CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i "
                      "+ 1 FROM n) SELECT i FROM n"),
              HasSubstr("not a file of a sweep"));
}

TEST_F(StoreTest, TellsADamagedFile) {
  std::vector<SweepRow> rows;
  for (int id = 0; id < 200; ++id) rows.push_back(row(id, 0.1));
  SweepStore(path(), about).add(rows);
  std::string bytes = read_file(path());
  bytes.replace(bytes.size() - 4096, 4096, 4096, '\xff');
  write_file(path(), bytes);
  EXPECT_THAT(error_of([&] { SweepReader(path()).rows([](const SweepRow&) {}); }),
              HasSubstr("is damaged"));
}

/// Of a file that has lost pages SQLite may say no more than that a row is not there.
TEST_F(StoreTest, TellsAFileThatIsCutShort) {
  std::vector<SweepRow> rows;
  for (int id = 0; id < 400; ++id) rows.push_back(row(id, 0.1));
  SweepStore(path(), about).add(rows);
  const std::string whole = read_file(path());
  for (const std::size_t size : {std::size_t{4096}, whole.size() - 4096, whole.size() - 1}) {
    write_file(path(), whole.substr(0, size));
    const auto cut = HasSubstr("is cut short: it lacks pages that it says it has");
    EXPECT_THAT(error_of([&] { const SweepReader reader(path()); }), cut) << size;
    EXPECT_THAT(error_of([&] { const SweepStore store(path(), about); }), cut) << size;
    EXPECT_EQ(read_file(path()), whole.substr(0, size));
  }
}

TEST_F(StoreTest, ColumnsThatDifferOnlyInCaseAreRefused) {
  SweepStore store(path(), about);
  EXPECT_THAT(error_of([&] {
                store.add({{0, sweep_ok, "", {{"Policy", text_value("a")}}}});
              }),
              HasSubstr("s.sqlite: error: the columns 'policy' and 'Policy' have one name: SQLite "
                        "ignores case\nhint: give the axis another name"));
}

/// Whoever waits may have opened the lock's file before its name was removed.
TEST_F(StoreTest, OneWritesAtATime) {
  std::atomic<int> holders = 0, most = 0, taken = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        try {
          const SweepLock lock(path());
          most = std::max(most.load(), ++holders);
          ++taken;
          --holders;
        } catch (const Error&) {
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_GT(taken, 0);
}

TEST_F(StoreTest, MergesPartsThatNobodyWrites) {
  const std::string written = part_file(path(), "1-of-2");
  SweepStore(part_file(path(), "0-of-2"), about).add({row(0, 0.1), row(2, 0.3)});
  SweepStore part(written, about);
  part.add({row(1, 0.2)});
  EXPECT_THAT(ids_in(path(), about), ElementsAre(0, 2)) << "what is being written may not be read";
  SweepStore store(path(), about);
  EXPECT_THAT(merge_parts(path(), store, about), ElementsAre(written));
  EXPECT_THAT(store.ids(), ElementsAre(0, 2));
  EXPECT_THAT(part_files(path()), ElementsAre(written));
  EXPECT_THAT(part.ids(), ElementsAre(1)) << "and may go on";
}

TEST_F(StoreTest, RowsOfAnotherGridAreNotTakenForOnesOfThis) {
  SweepAbout other = about;
  other.grid = "else";
  SweepStore(part_file(path(), "0-of-2"), other).add({row(0, 0.1)});
  const auto refused = HasSubstr("this part is of another grid than grid.yaml");
  EXPECT_THAT(error_of([&] { ids_in(path(), about); }), refused);
  EXPECT_THAT(ids_in(path(), about, part_file(path(), "0-")), IsEmpty());
  EXPECT_THAT(error_of([&] {
                SweepStore store(path(), about);
                merge_parts(path(), store, about);
              }),
              refused);
  EXPECT_THAT(part_files(path()), ElementsAre(part_file(path(), "0-of-2")));
}

TEST_F(StoreTest, ClosedFilesAreClosed) {
  const auto open_files = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  SweepStore(path(), about).add({row(0, 0.1)});
  SweepReader(path()).query("SELECT * FROM scenarios");
  EXPECT_THAT(error_of([&] { SweepReader(path()).query("SELECT 1; SELECT 2"); }),
              HasSubstr("SQLite runs one statement at a time"));
  EXPECT_THAT(
      error_of([&] { SweepReader(path()).query("SELECT abs(-9223372036854775808)"); }),
      HasSubstr("s.sqlite: error: cannot be read: integer overflow\nhint: if it is damaged, "));
  SweepAbout other = about;
  other.grid = "else";
  error_of([&] { SweepStore(path(), other); });
  write_file(path("text"), "no database, though long enough to be looked at as one ...........");
  error_of([&] { SweepReader(path("text")); });
  EXPECT_EQ(open_files(), before);
}

TEST_F(StoreTest, ClaimsAreTakenOnce) {
  std::vector<std::int64_t> taken;
  const auto a = file_claims(11, scratch_.path(), 3), b = file_claims(11, scratch_.path(), 3);
  for (bool any = true; any;) {
    any = false;
    for (Claims* claims : {a.get(), b.get(), b.get()}) {
      if (const auto unit = claims->next()) {
        taken.push_back(*unit);
        any = true;
      }
    }
  }
  std::ranges::sort(taken);
  EXPECT_THAT(taken, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(SweepValue, NumbersAreToldFromText) {
  EXPECT_EQ(value_of("8"), integer_value(8));
  EXPECT_EQ(value_of("0.5"), real_value(0.5));
  for (const char* text : {"", "8 GB/s", "0:10", "nan", "inf", "1-2", "true", "e"}) {
    EXPECT_EQ(value_of(text), text_value(text));
  }
}

}  // namespace
}  // namespace moesim
