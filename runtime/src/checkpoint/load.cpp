#include "checkpoint/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "checkpoint/tensor_part.h"
#include "checkpoint/writer.h"
#include "files/elements.h"
#include "meshrt/failure.h"
#include "meshrt/optimizer_names.h"
#include "meshrt/path_pattern.h"
#include "system/suggest.h"

namespace meshrt {

namespace {

/// A tensor and what it is read from: one array, or one for each index of its first dim.
struct Match {
  Tensor* tensor;
  std::vector<const NamedArray*> arrays;

  /// visit(array, element of the array, element of the part, count) for runs that make up elements [first, last) of the
  /// part.
  template <class Visit>
  void for_each_run(int64_t first, int64_t last, Visit visit) const {
    int64_t each = 1;
    for (const int64_t size : arrays[0]->shape) each *= size;
    meshrt::for_each_run(extents_of(*tensor), first, last, [&](int64_t whole, int64_t at, int64_t count) {
      while (count > 0) {
        const int64_t within = whole % each, some = std::min(count, each - within);
        visit(static_cast<size_t>(whole / each), within, at, some);
        whole += some, at += some, count -= some;
      }
    });
  }
};

class Matcher {
 public:
  Matcher(std::span<Tensor> tensors, const SavedTensors& saved, const LoadOptions& options)
      : tensors_(tensors), saved_(saved), options_(options) {}

  std::vector<Match> match(Unmatched& unmatched) {
    std::vector<std::string> names, read;
    for (Tensor& tensor : tensors_) {
      if (!is_saved(tensor)) continue;
      names.push_back(tensor.name);
      std::vector<std::string> dims;
      for (const LocalDim& dim : tensor.dims) dims.push_back(dim.name);
      const Pieces pieces = pieces_of(tensor.name, dims, sizes_of(tensor), options_.names,
                                      [&](const std::string& name) { return saved_.find(name); });
      expected_.insert(pieces.names.begin(), pieces.names.end());
      if (!is_read(tensor)) continue;
      read.push_back(tensor.name);
      if (is_fresh(tensor.name)) {
        unmatched.fresh.push_back(tensor.name);
        continue;
      }
      if (!pieces.misfit.empty()) {
        if (may_be_unfit(tensor)) unmatched.unfit.push_back(tensor.name);
        else add_wrong(pieces.misfit, tensor.role == Role::parameter), ++misfits_;
      }
      std::vector<std::string>& missing = may_lack(tensor)    ? unmatched.states
                                          : may_begin(tensor) ? unmatched.begun
                                                              : unmatched.missing;
      missing.insert(missing.end(), pieces.missing.begin(), pieces.missing.end());
      if (!pieces.arrays.empty()) compare(tensor, pieces.arrays);
    }
    for (const std::string& pattern : options_.fresh)
      if (std::ranges::none_of(read, [&](const std::string& name) { return path_matches(pattern, name); }))
        add_wrong(fmt::format("`{}` names no parameter: {}", pattern, suggestion(pattern, read, "tensors")));
    std::vector<std::string> absent = options_.names.tensors();
    std::erase_if(absent, [&](const std::string& left) { return std::ranges::count(names, left) > 0; });
    const Suggestions said = suggestions("the map names `{}`, which the program lacks", absent, names, "tensors");
    for (const std::string& line : said.lines) add_wrong(line);
    known_ = said.known;
    for (const NamedArray& array : saved_.tensors())
      if (!expected_.contains(array.name) && (options_.what == Loaded::run || !saved_.of_optimizer(array.name)))
        (may_cease(array.name) ? unmatched.ceased : unmatched.unexpected).push_back(array.name);
    if (!options_.partial) {
      for (const std::string& name : unmatched.missing)
        add_wrong(fmt::format("`{}` is not in the file", name), is_parameter(name));
      for (const std::string& name : options_.what == Loaded::model ? std::vector<std::string>{} : unmatched.unexpected)
        add_wrong(fmt::format("`{}` is in the file, but not in the program", name), !saved_.of_optimizer(name));
    }
    missing_ = !options_.partial && !unmatched.missing.empty();
    if (!wrong_.empty()) refuse();
    return std::move(matches_);
  }

 private:
  bool is_fresh(const std::string& name) const {
    return std::ranges::any_of(options_.fresh, [&](const std::string& pattern) { return path_matches(pattern, name); });
  }

  bool is_read(const Tensor& tensor) const {
    return options_.what == Loaded::run || tensor.role == Role::parameter || tensor.role == Role::state;
  }
  bool may_lack(const Tensor& tensor) const {
    return may_be_unfit(tensor) || (options_.what == Loaded::model && tensor.role == Role::state && !saved_.manifest());
  }
  /// As a state that has a part for every sample is, under another batch.
  bool may_be_unfit(const Tensor& tensor) const {
    return options_.what == Loaded::parameters && tensor.role == Role::state;
  }

  bool may_begin(const Tensor& tensor) const {
    return tensor.role == Role::optimizer && std::ranges::none_of(tensors_, [&](const Tensor& other) {
             return other.role == Role::parameter && tensor.name.starts_with(other.name + ".");
           });
  }
  bool may_cease(const std::string& name) const {
    return saved_.of_optimizer(name) && std::ranges::none_of(saved_.tensors(), [&](const NamedArray& other) {
             return !saved_.of_optimizer(other.name) && name.starts_with(other.name + ".");
           });
  }

  bool is_parameter(const std::string& name) const {
    return std::ranges::any_of(
        tensors_, [&](const Tensor& tensor) { return tensor.role == Role::parameter && tensor.name == name; });
  }

  void add_wrong(std::string text, bool of_parameters = true) {
    wrong_.push_back(std::move(text));
    parameters_fit_ = parameters_fit_ && !of_parameters;
  }

  [[noreturn]] void refuse() const {
    constexpr size_t shown = 12;  // of a wholly different model all tensors are wrong
    std::string lines;
    for (size_t i = 0; i < std::min(shown, wrong_.size()); ++i) lines += "\n  " + wrong_[i];
    if (wrong_.size() > shown) lines += fmt::format("\n  and {} more", wrong_.size() - shown);
    if (!known_.empty()) lines += "\n  " + known_;
    const bool of_model = options_.what == Loaded::model;
    if (missing_ && options_.what != Loaded::run && has_other_names())
      lines += fmt::format("\n`{}` names a map `ours: theirs`, where a file has other names",
                           of_model ? "--names" : "train.names");
    if (missing_ && options_.what != Loaded::run)
      lines += fmt::format("\n`{}` names parameters that begin as the spec says, by paths or patterns",
                           of_model ? "--fresh" : "train.fresh");
    const std::string replicas = options_.what == Loaded::run ? other_replicas() : "";
    if (misfits_ == wrong_.size() && replicas.empty()) lines += other_sizes();
    if (options_.what == Loaded::run && parameters_fit_)
      lines += fmt::format(
          "\n`checkpoint.resume=never train.params={}` with another `checkpoint.dir` begins with its parameters, and "
          "with all else anew",
          saved_.path());
    throw Failure(Cause::data, fmt::format("`{}` does not fit the program{}:{}", saved_.path(), replicas, lines));
  }

  /// Whether no parameter is found by its own name, and there is something else in the file.
  bool has_other_names() const {
    return options_.names.tensors().empty() && !saved_.tensors().empty() &&
           std::ranges::none_of(tensors_, [&](const Tensor& tensor) {
             return tensor.role == Role::parameter && expected_.contains(tensor.name) && saved_.find(tensor.name);
           });
  }

  /// Where the file is of replicas that train apart and the program of none, of others, or the other way round.
  std::string other_replicas() const {
    int64_t written = 0, own = 0;
    for (const NamedArray& array : saved_.tensors())
      if (saved_.of_optimizer(array.name) && is_of_replicas(array.name) && !array.shape.empty())
        written = array.shape[0];
    for (const Tensor& tensor : tensors_)
      if (tensor.role == Role::optimizer && is_of_replicas(tensor.name) && !tensor.dims.empty())
        own = tensor.dims[0].size;
    if (written == own) return "";
    const auto text = [](int64_t count) {
      return count == 0 ? std::string("one model") : fmt::format("{} replicas that train apart", count);
    };
    const bool both = written != 0 && own != 0;
    return fmt::format(": it is of {}, the program of {}", text(written), both ? std::to_string(own) : text(own));
  }

  /// Whether it is what replicas have of a parameter.
  bool is_of_replicas(const std::string& name) const {
    const std::string_view suffix = replica_suffix;
    return name.ends_with(suffix) && is_parameter(name.substr(0, name.size() - suffix.size()));
  }

  /// How the same model was compiled for the file, where it differs in sizes of dims alone.
  std::string other_sizes() const {
    std::map<std::string, std::pair<int64_t, int64_t>> sizes;  // in the file and in the program, by dim
    for (const Tensor& tensor : tensors_) {
      const NamedArray* found = is_saved(tensor) && is_read(tensor) ? saved_.find(tensor.name) : nullptr;
      if (found == nullptr) continue;
      if (found->shape.size() != tensor.dims.size()) return "";
      for (size_t d = 0; d < tensor.dims.size(); ++d) {
        const std::pair<int64_t, int64_t> both(found->shape[d], tensor.dims[d].size);
        if (sizes.try_emplace(tensor.dims[d].name, both).first->second != both) return "";
      }
    }
    std::string written, set;
    for (const auto& [dim, both] : sizes) {
      if (both.first == both.second) continue;
      written += fmt::format("{}{} = {}", written.empty() ? "" : ", ", dim, both.first);
      set += fmt::format("{}--set {}={}", set.empty() ? "" : " ", dim, both.first);
    }
    return set.empty() ? "" : fmt::format("\nit is of {}: `{}` compiles the program for that", written, set);
  }

  void compare(Tensor& tensor, const std::vector<const NamedArray*>& arrays) {
    const NamedArray& array = *arrays[0];
    if (is_float(array.type) != is_float(tensor.type))
      add_wrong(fmt::format("`{}` is {} in the file and {} in the program", array.name, name_of(array.type),
                            name_of(tensor.type)),
                tensor.role == Role::parameter);
    else matches_.push_back({&tensor, arrays});
  }

  std::span<Tensor> tensors_;
  const SavedTensors& saved_;
  const LoadOptions& options_;
  std::vector<Match> matches_;
  std::set<std::string, std::less<>> expected_;
  std::vector<std::string> wrong_;
  std::string known_;   // names, where the map has others
  size_t misfits_ = 0;  // of what is wrong
  bool missing_ = false;
  bool parameters_fit_ = true;  // whatever else is wrong
};

void read_part(const Match& match, const std::string& path) {
  Tensor* const tensor = match.tensor;
  const size_t to_size = size_of(tensor->type);
  match.for_each_run(0, tensor->local_elements(), [&](size_t which, int64_t within, int64_t at, int64_t count) {
    const NamedArray& array = *match.arrays[which];
    const std::byte* from = array.data.data() + static_cast<size_t>(within) * size_of(array.type);
    std::byte* to = static_cast<std::byte*>(tensor->data) + static_cast<size_t>(at) * to_size;
    if (array.type == tensor->type) {
      std::memcpy(to, from, static_cast<size_t>(count) * to_size);
    } else if (const auto misfit =
                   convert(from, {number_of(array.type)}, count, tensor->type, tensor->index_bound, to)) {
      throw Failure(Cause::data,
                    fmt::format("`{}`: number {} of `{}` is {}, but the program holds {}", path, within + misfit->index,
                                array.name, misfit->number, reach_of(tensor->type)));
    }
  });
}

/// Of this rank's share of each array.
std::vector<uint64_t> hash_share(const Match& match, std::span<const MeshAxis> mesh, int rank) {
  const auto size = static_cast<int64_t>(size_of(match.arrays[0]->type));
  const Share share = share_of(*match.tensor, mesh, rank);
  std::vector<uint64_t> hashes(match.arrays.size());
  match.for_each_run(share.first, share.last, [&](size_t which, int64_t within, int64_t, int64_t count) {
    const auto part =
        match.arrays[which]->data.subspan(static_cast<size_t>(within * size), static_cast<size_t>(count * size));
    hashes[which] += hash_elements(part, static_cast<size_t>(size), within);
  });
  return hashes;
}

}  // namespace

Unmatched load_tensors(Rank& rank, const ProgramInfo& info, std::span<Tensor> tensors, const SavedTensors& saved,
                       const LoadOptions& options) {
  Unmatched unmatched;
  const std::vector<Match> matches = Matcher(tensors, saved, options).match(unmatched);
  for (const Match& match : matches) read_part(match, saved.path());
  std::vector<uint64_t> hashes;
  std::vector<const NamedArray*> arrays;
  for (const Match& match : matches) {
    if (!saved.hash_of(match.arrays[0]->name)) continue;
    const std::vector<uint64_t> of_match = hash_share(match, info.mesh, rank.rank());
    hashes.insert(hashes.end(), of_match.begin(), of_match.end());
    arrays.insert(arrays.end(), match.arrays.begin(), match.arrays.end());
  }
  if (arrays.empty()) return unmatched;
  sum_over_ranks(rank, {-1, "checkpoint"}, hashes);
  std::string damaged;
  for (size_t i = 0; i < arrays.size(); ++i)
    if (hashes[i] != saved.hash_of(arrays[i]->name))
      damaged += fmt::format("\n  `{}` in {}", arrays[i]->name, saved.file_of(arrays[i]->name));
  if (!damaged.empty())
    throw Failure(Cause::data,
                  fmt::format("`{}` is damaged: these tensors are not what was written:{}", saved.path(), damaged));
  return unmatched;
}

}  // namespace meshrt
