#include "meshrt/tensors_io.h"

#include <atomic>
#include <numeric>

#include "meshrt/collectives.h"
#include "meshrt/launch.h"
#include "test_files.h"

namespace meshrt {
namespace {

// A tensor [7, 5, 3] on a mesh of rows x columns, each dim split or not; a part of this rank's own memory.
Tensor local_tensor(const Rank& rank, int rows, int columns, int row_dim, int column_dim,
                    std::vector<int32_t>& memory) {
  const int row = rank.rank() / columns % rows, column = rank.rank() % columns;
  Tensor tensor{.name = "w", .role = Role::parameter, .type = Type::i32, .dims = {}, .initial = {}};
  const int64_t sizes[] = {7, 5, 3};
  for (int d = 0; d < 3; ++d) {
    LocalDim dim{std::string(1, static_cast<char>('a' + d)), sizes[d], 0, sizes[d], {}};
    if (d == row_dim) dim.begin = part_begin(sizes[d], row, rows), dim.end = part_begin(sizes[d], row + 1, rows);
    if (d == column_dim)
      dim.begin = part_begin(sizes[d], column, columns), dim.end = part_begin(sizes[d], column + 1, columns);
    tensor.dims.push_back(dim);
  }
  // Where an axis splits nothing its ranks hold copies; the first of them counts.
  tensor.primary = (row_dim >= 0 || row == 0) && (column_dim >= 0 || column == 0);
  memory.assign(tensor.local_elements(), -1);
  tensor.data = memory.data();
  return tensor;
}

TEST(TensorsIo, ScatterAndGatherAreInverse) {
  const struct {
    int rows, columns, row_dim, column_dim;
  } cases[] = {{1, 1, -1, -1}, {2, 1, 0, -1}, {3, 1, 2, -1},  {2, 2, 0, 1},
               {2, 2, -1, 2},  {2, 2, 1, -1}, {2, 1, -1, -1}, {4, 1, 2, -1}};
  for (const auto& c : cases) {
    std::atomic<int> checked = 0;
    const int code = launch_threads(c.rows * c.columns, [&](Rank& rank) {
      rank.allocate(4096, 0);
      std::vector<int32_t> whole(size_t{7} * 5 * 3), memory;
      std::iota(whole.begin(), whole.end(), 100);
      const Tensor tensor = local_tensor(rank, c.rows, c.columns, c.row_dim, c.column_dim, memory);
      scatter_tensor(rank, rank.rank() == 0 ? std::as_bytes(std::span(whole)) : std::span<const std::byte>{}, tensor);
      size_t at = 0;
      const auto& d = tensor.dims;
      for (int64_t i = d[0].begin; i < d[0].end; ++i)
        for (int64_t j = d[1].begin; j < d[1].end; ++j)
          for (int64_t k = d[2].begin; k < d[2].end; ++k) EXPECT_EQ(memory[at++], 100 + (i * 5 + j) * 3 + k);
      // A copy that does not count must not be seen.
      if (!tensor.primary) std::fill(memory.begin(), memory.end(), -5);
      const std::vector<std::byte> gathered = gather_tensor(rank, tensor);
      if (rank.rank() == 0) EXPECT_TRUE(std::ranges::equal(gathered, std::as_bytes(std::span(whole))));
      else EXPECT_TRUE(gathered.empty());
      ++checked;
      return 0;
    });
    EXPECT_EQ(code, 0);
    EXPECT_EQ(checked, c.rows * c.columns);
  }
}

TEST(TensorsIo, ScalarsAndMissingParts) {
  const int code = launch_threads(2, [&](Rank& rank) {
    rank.allocate(4096, 0);
    double value = rank.rank() == 0 ? 0 : 9;
    Tensor scalar{.name = "s", .role = Role::metric, .type = Type::f64, .dims = {}, .initial = {}};
    scalar.data = &value;
    scalar.primary = rank.rank() == 1;
    const std::vector<std::byte> whole = gather_tensor(rank, scalar);
    if (rank.rank() == 0) {
      EXPECT_EQ(whole.size(), 8U);
      EXPECT_EQ(*reinterpret_cast<const double*>(whole.data()), 9);
    }
    scalar.primary = false;
    EXPECT_EQ(failure_of([&] { gather_tensor(rank, scalar); }),
              "the primary parts of `s` have 0 elements, the whole has 1");
    return 0;
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace meshrt
