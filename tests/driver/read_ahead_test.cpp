#include "data/read_ahead.h"

#include <numeric>

#include "test_files.h"

namespace meshrt {
namespace {

class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() {
    info_.name = "Model";
    info_.sample_dims = {"batch"};
    std::vector<uint16_t> numbers(100);
    std::iota(numbers.begin(), numbers.end(), 0);
    folder_.write("a.bin", numbers);
    for (const char* name : {"x", "y"}) {
      Tensor tensor{
          .name = name, .role = Role::input, .type = Type::i32, .dims = {{"batch", 5, 1, 4, {0}}}, .initial = {}};
      tensor.data = memory_[tensors_.size()];
      tensors_.push_back(tensor);
    }
  }
  void expect(int64_t position) const {
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(memory_[0][i], (position + 1 + i) % 99);
      EXPECT_EQ(memory_[1][i], (position + 1 + i) % 99 + 1);
    }
  }

  TestFolder folder_;
  ProgramInfo info_;
  std::vector<Tensor> tensors_;
  int32_t memory_[2][3] = {};
};

TEST_F(ReadAheadTest, GivesWhatIsAskedFor) {
  const RunFile run =
      parse_run_file("run.yaml", "data: { x: {file: a.bin, type: u16}, y: {of: x, shift: 1} }", folder_.path(""));
  const Batches batches(tensors_, info_, run, run.data, "data");
  ReadAhead reader(batches);
  for (const auto& [position, next] :
       {std::pair<int64_t, int64_t>{0, 5}, {5, 10}, {10, 15}, {50, 55}, {55, -1}, {60, 65}, {95, 100}}) {
    reader.fill(position, next);
    expect(position);
    for (auto& memory : memory_) std::fill_n(memory, 3, -1);  // a program may do what it likes with them
  }
}

// The program hears of a number that does not fit when it comes to it, not before.
TEST_F(ReadAheadTest, FailsWhenTheBatchIsWanted) {
  tensors_[0].index_bound = 12;
  tensors_.pop_back();
  const RunFile run = parse_run_file("run.yaml", "data: { x: {file: a.bin, type: u16} }", folder_.path(""));
  const Batches batches(tensors_, info_, run, run.data, "data");
  ReadAhead reader(batches);
  reader.fill(0, 5);
  reader.fill(5, 10);
  EXPECT_EQ(folder_.without_folder(failure_of([&] { reader.fill(10, 15); })),
            "`a.bin`: number 12 is 12, but `x` takes an index below 12\n  --> run.yaml:1:19\n"
            "1 | data: { x: {file: a.bin, type: u16} }\n  |                   ^^^^^");
  reader.fill(0, -1);
  EXPECT_EQ(memory_[0][2], 3);
}

}  // namespace
}  // namespace meshrt
