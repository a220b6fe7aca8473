#include "checkpoint/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "checkpoint/tensor_part.h"
#include "checkpoint/writer.h"
#include "driver/elements.h"
#include "driver/suggest.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

struct Match {
  Tensor* tensor;
  const NamedArray* array;
};

class Matcher {
 public:
  Matcher(std::span<Tensor> tensors, const SavedTensors& saved, const LoadOptions& options)
      : tensors_(tensors), saved_(saved), options_(options) {}

  std::vector<Match> match(Unmatched& unmatched) {
    std::vector<std::string> names;
    for (Tensor& tensor : tensors_) {
      if (!is_saved(tensor)) continue;
      names.push_back(tensor.name);
      const std::string& name = options_.names.of(tensor.name);
      expected_.insert(name);
      if (options_.parameters_only && tensor.role != Role::parameter) continue;
      if (const NamedArray* found = saved_.find(name)) compare(tensor, *found);
      else unmatched.missing.push_back(name);
    }
    for (const std::string& left : options_.names.tensors())
      if (std::ranges::find(names, left) == names.end())
        wrong_ += fmt::format("\n  the map names `{}`, which the program lacks: {}", left,
                              suggestion(left, names, "tensors"));
    for (const NamedArray& array : saved_.tensors())
      if (!expected_.contains(array.name) && !(options_.parameters_only && saved_.of_optimizer(array.name)))
        unmatched.unexpected.push_back(array.name);
    if (!options_.partial) {
      for (const std::string& name : unmatched.missing) wrong_ += fmt::format("\n  `{}` is not in the file", name);
      for (const std::string& name : unmatched.unexpected)
        wrong_ += fmt::format("\n  `{}` is in the file, but not in the program", name);
    }
    if (!wrong_.empty())
      throw Failure(Cause::data, fmt::format("`{}` does not fit the program:{}", saved_.path(), wrong_));
    return std::move(matches_);
  }

 private:
  void compare(Tensor& tensor, const NamedArray& array) {
    if (array.shape != sizes_of(tensor))
      wrong_ += fmt::format("\n  `{}` is [{}] in the file and [{}] in the program", array.name,
                            fmt::join(array.shape, ", "), fmt::join(sizes_of(tensor), ", "));
    else if (is_float(array.type) != is_float(tensor.type))
      wrong_ += fmt::format("\n  `{}` is {} in the file and {} in the program", array.name, name_of(array.type),
                            name_of(tensor.type));
    else matches_.push_back({&tensor, &array});
  }

  std::span<Tensor> tensors_;
  const SavedTensors& saved_;
  const LoadOptions& options_;
  std::vector<Match> matches_;
  std::set<std::string, std::less<>> expected_;
  std::string wrong_;
};

void read_part(const Match& match, const std::string& path) {
  const auto [tensor, array] = match;
  const size_t from_size = size_of(array->type), to_size = size_of(tensor->type);
  for_each_run(extents_of(*tensor), 0, tensor->local_elements(), [&](int64_t whole, int64_t at, int64_t count) {
    const std::byte* from = array->data.data() + static_cast<size_t>(whole) * from_size;
    std::byte* to = static_cast<std::byte*>(tensor->data) + static_cast<size_t>(at) * to_size;
    if (array->type == tensor->type) {
      std::memcpy(to, from, static_cast<size_t>(count) * to_size);
    } else if (const auto misfit =
                   convert(from, {number_of(array->type)}, count, tensor->type, tensor->index_bound, to)) {
      throw Failure(Cause::data,
                    fmt::format("`{}`: number {} of `{}` is {}, but the program holds {}", path, whole + misfit->index,
                                array->name, misfit->number, name_of(tensor->type)));
    }
  });
}

uint64_t hash_share(const Match& match, std::span<const MeshAxis> mesh, int rank) {
  const auto size = static_cast<int64_t>(size_of(match.array->type));
  const Share share = share_of(*match.tensor, mesh, rank);
  uint64_t hash = 0;
  for_each_run(extents_of(*match.tensor), share.first, share.last, [&](int64_t whole, int64_t, int64_t count) {
    hash +=
        hash_elements(match.array->data.subspan(static_cast<size_t>(whole * size), static_cast<size_t>(count * size)),
                      static_cast<size_t>(size), whole);
  });
  return hash;
}

}  // namespace

Unmatched load_tensors(Rank& rank, const ProgramInfo& info, std::span<Tensor> tensors, const SavedTensors& saved,
                       const LoadOptions& options) {
  Unmatched unmatched;
  const std::vector<Match> matches = Matcher(tensors, saved, options).match(unmatched);
  for (const Match& match : matches) read_part(match, saved.path());
  if (!saved.manifest() || matches.empty()) return unmatched;
  std::vector<uint64_t> hashes;
  for (const Match& match : matches) hashes.push_back(hash_share(match, info.mesh, rank.rank()));
  sum_over_ranks(rank, {-1, "checkpoint"}, hashes);
  std::string damaged;
  for (size_t i = 0; i < matches.size(); ++i)
    if (const NamedArray& array = *matches[i].array; hashes[i] != saved.manifest()->hashes.at(array.name))
      damaged += fmt::format("\n  `{}` in {}", array.name, saved.file_of(array.name));
  if (!damaged.empty())
    throw Failure(Cause::data,
                  fmt::format("`{}` is damaged: these tensors are not what was written:{}", saved.path(), damaged));
  return unmatched;
}

}  // namespace meshrt
