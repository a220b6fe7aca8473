// Writers whose folder another run takes, where no lock keeps it out, and what their copies need.
#include "checkpoint/writer.h"

#include <cstdlib>

#include "meshrt/collectives.h"
#include "meshrt/launch.h"
#include "report/gather.h"
#include "ring_program.h"
#include "test_files.h"
#include "transport/transport.h"

namespace meshrt {
namespace {

namespace fs = std::filesystem;

class WriterTest : public testing::Test {
 protected:
  CheckpointWriter::Options options(const std::string& run) const {
    CheckpointWriter::Options options;
    options.folder = folder_.path("c");
    options.run = run;
    return options;
  }
  /// The error of a checkpoint of step 4 whose folder another run takes as `stages` of it are done.
  std::string error_after(int stages) const {
    std::string error;
    launch_threads(1, [&](Rank& rank) {
      RingProgram program(1, 1);
      rank.allocate(program.info().arena_bytes, program.info().own_bytes);
      program.bind(rank);
      const CheckpointFolder folder(folder_.path("c"), "beef"), other(folder_.path("c"), "cafe");
      folder.make();
      CheckpointWriter writer(rank, program.info(), program.tensors(), options("beef"));
      writer.begin({.step = 4});
      for (int done = 1;; ++done) {
        writer.wait();
        if (done == stages) other.prepare();
        if (const auto outcome = writer.advance()) {
          error = folder_.without_folder(outcome->error);
          return 0;
        }
      }
    });
    return error;
  }

  TestFolder folder_;
};

TEST_F(WriterTest, ACheckpointThatAnotherRunTakesAwayIsLostAndNotHalfWritten) {
  ASSERT_EQ(error_after(0), "");
  const std::string before = folder_.read("c/step-4/checkpoint.json");
  for (const int stages : {1, 2}) {
    EXPECT_EQ(error_after(stages),
              "`c/.step-4.beef.unfinished` is gone: another run writes into `c`, or it was removed");
    EXPECT_EQ(folder_.read("c/step-4/checkpoint.json"), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path("c")), {}), 2) << "step-4 and latest";
  }
}

TEST_F(WriterTest, CopiesAreCountedForTheRanksOfTheHost) {
  std::string failure;
  const auto make_writers = [&](const Placement& placement) {
    failure = "";
    launch_threads(4, [&](Rank& rank) {
      RingProgram program(4, 1);
      rank.allocate(program.info().arena_bytes, program.info().own_bytes);
      program.bind(rank);
      rank.transport().set_placement(placement);
      barrier(rank, world(rank), {-1, "allocated"});
      if (rank.rank() == 0) setenv("SLURM_MEM_PER_NODE", "5", 1);  // 2 MiB a rank are needed
      barrier(rank, world(rank), {-1, "little is left"});
      try {
        const CheckpointWriter writer(rank, program.info(), program.tensors(), options(""));
      } catch (const Failure& told) {
        if (rank.rank() == 0) failure = told.what();
      }
      return 0;
    });
    unsetenv("SLURM_MEM_PER_NODE");
    return failure;
  };
  EXPECT_EQ(make_writers({{0, 0, 1, 1}, {"a", "b"}, ""}), "");
  EXPECT_EQ(
      make_writers(Placement::together(4, "a")),
      "the copies of an asynchronous checkpoint (`checkpoint.async=false` does without them) needs 8388608 bytes, "
      "but Slurm (SLURM_MEM_PER_NODE=5) grants 5242880 bytes; use more ranks, a smaller batch or a layout that "
      "splits more");
}

}  // namespace
}  // namespace meshrt
