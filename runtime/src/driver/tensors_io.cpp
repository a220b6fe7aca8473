#include "meshrt/tensors_io.h"

#include <fmt/format.h>

#include <cstring>

#include "files/tensor_runs.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "report/gather.h"

namespace meshrt {

namespace {

// Which part of a tensor a rank holds.
struct RankPart {
  std::vector<Extent> extents;
  bool primary;
  int64_t elements() const {
    int64_t n = 1;
    for (const Extent& dim : extents) n *= dim.length;
    return n;
  }
};

// The parts of all ranks, on every rank.
std::vector<RankPart> all_parts(Rank& rank, const Tensor& tensor, Site site) {
  const size_t dims = tensor.dims.size(), numbers = 2 * dims + 1;
  std::vector<int64_t> mine, all(numbers * rank.ranks()), begin;
  for (const LocalDim& dim : tensor.dims) mine.insert(mine.end(), {dim.begin, dim.end});
  mine.push_back(tensor.primary ? 1 : 0);
  for (int r = 0; r <= rank.ranks(); ++r) begin.push_back(r * static_cast<int64_t>(numbers));
  all_gather(rank, world(rank), site, mine.data(), all.data(), {1, begin, 1}, Type::i64);
  std::vector<RankPart> parts(rank.ranks());
  for (int r = 0; r < rank.ranks(); ++r) {
    const int64_t* from = all.data() + numbers * r;
    for (size_t d = 0; d < dims; ++d)
      parts[r].extents.emplace_back(tensor.dims[d].size, from[2 * d], from[2 * d + 1], tensor.dims[d].deal);
    parts[r].primary = from[2 * dims] != 0;
  }
  return parts;
}

int64_t whole_elements(const Tensor& tensor) {
  int64_t n = 1;
  for (const LocalDim& dim : tensor.dims) n *= dim.size;
  return n;
}

}  // namespace

std::vector<std::byte> gather_tensor(Rank& rank, const Tensor& tensor) {
  const Site site{-1, tensor.name.c_str()};
  const std::vector<RankPart> parts = all_parts(rank, tensor, site);
  const size_t size = size_of(tensor.type);
  std::vector<std::byte> whole, received;
  if (rank.rank() == 0) whole.resize(whole_elements(tensor) * size);
  int64_t covered = 0;
  for (int r = 0; r < rank.ranks(); ++r) {
    if (!parts[r].primary) continue;
    covered += parts[r].elements();
    const void* from = tensor.data;
    if (r != 0) {
      const int64_t count = parts[r].elements();
      if (rank.rank() == 0) received.resize(count * size);
      permute(rank, world(rank), site, tensor.data, rank.rank() == r ? count : 0, rank.rank() == r ? 0 : -1,
              received.data(), rank.rank() == 0 ? count : 0, rank.rank() == 0 ? r : -1, tensor.type);
      from = received.data();
    }
    if (rank.rank() != 0) continue;
    for_each_run(parts[r].extents, 0, parts[r].elements(), [&](int64_t to, int64_t at, int64_t run) {
      std::memcpy(whole.data() + to * size, static_cast<const std::byte*>(from) + at * size, run * size);
    });
  }
  if (covered != whole_elements(tensor))
    throw Failure(Cause::mismatch, fmt::format("the primary parts of `{}` have {} elements, the whole has {}",
                                               tensor.name, covered, whole_elements(tensor)));
  return whole;
}

void scatter_tensor(Rank& rank, std::span<const std::byte> whole, const Tensor& tensor) {
  const Site site{-1, tensor.name.c_str()};
  const std::vector<RankPart> parts = all_parts(rank, tensor, site);
  const size_t size = size_of(tensor.type);
  if (rank.rank() == 0 && whole.size() != whole_elements(tensor) * size)
    throw Failure(Cause::data, fmt::format("`{}` has {} bytes, but {} were given", tensor.name,
                                           whole_elements(tensor) * size, whole.size()));
  std::vector<std::byte> part;
  for (int r = 0; r < rank.ranks(); ++r) {
    const int64_t count = parts[r].elements();
    if (rank.rank() == 0) {
      part.resize(count * size);
      std::byte* to = r == 0 ? static_cast<std::byte*>(tensor.data) : part.data();
      for_each_run(parts[r].extents, 0, parts[r].elements(), [&](int64_t from, int64_t at, int64_t run) {
        std::memcpy(to + at * size, whole.data() + from * size, run * size);
      });
    }
    if (r == 0) continue;
    permute(rank, world(rank), site, part.data(), rank.rank() == 0 ? count : 0, rank.rank() == 0 ? r : -1, tensor.data,
            rank.rank() == r ? count : 0, rank.rank() == r ? 0 : -1, tensor.type);
  }
}

}  // namespace meshrt
