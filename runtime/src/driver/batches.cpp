#include "driver/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "driver/permutation.h"
#include "driver/suggest.h"

namespace meshrt {

namespace {

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

size_t element_size(const Tensor& tensor) { return size_of(tensor.type); }

}  // namespace

std::string shape_of(const Tensor& tensor) {
  std::vector<std::string> dims;
  for (const LocalDim& dim : tensor.dims) dims.push_back(fmt::format("{} {}", dim.name, dim.size));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

bool merges_or_splits(std::span<const int64_t> file, std::span<const int64_t> input) {
  if (product(file) == 0 || product(input) == 0) return product(file) == product(input);
  size_t f = 0, i = 0;
  const auto next = [](std::span<const int64_t> sizes, size_t& at) { return at < sizes.size() ? sizes[at++] : 0; };
  while (f < file.size() || i < input.size()) {
    if (f < file.size() && file[f] == 1) {
      ++f;
    } else if (i < input.size() && input[i] == 1) {
      ++i;
    } else {
      int64_t from = next(file, f), to = next(input, i);
      if (from == 0 || to == 0) return false;
      // One side is a single dim, the other as many as make it up.
      const bool merge = from < to;
      int64_t& growing = merge ? from : to;
      const int64_t goal = merge ? to : from;
      while (growing < goal) {
        const int64_t factor = merge ? next(file, f) : next(input, i);
        if (factor == 0) return false;
        growing *= factor;
      }
      if (growing != goal) return false;
    }
  }
  return true;
}

// A source's file and the part of it that is read, in entries of its first dim.
struct Batches::Opened {
  const Source* base;  // the source that names the file
  std::shared_ptr<const NumberArray> file;
  const LineFile* lines = nullptr;  // the file where its lines are samples
  int64_t begin = 0, end = 0;
  int64_t window = 0;  // 0: an entry is a sample
};

Batches::Batches(std::span<Tensor> tensors, const ProgramInfo& info, const RunFile& run,
                 const std::vector<Source>& sources, const std::string& section)
    : tensors_(tensors), info_(info), run_(run), sources_(sources), section_(section) {
  check_names();
  for (const Tensor& tensor : tensors_)
    if (tensor.role == Role::input) feeds_.push_back(make_feed(tensor));
  for (const Tensor& tensor : tensors_)
    if (tensor.role == Role::state && names(tensor)) state_.push_back(make_feed(tensor));
  leave_out_long_lines();
}

bool Batches::names(const Tensor& tensor) const {
  return std::any_of(sources_.begin(), sources_.end(), [&](const Source& s) { return s.input == tensor.name; });
}

Batches::Feed Batches::make_feed(const Tensor& tensor) {
  const Source& source = source_of(tensor.name);
  const Opened opened = open(source.of.given() ? source_of(source.of.value) : source);
  Feed feed;
  feed.tensor = &tensor;
  feed.file = opened.file;
  if (opened.base->longer.value == LongLine::skip) feed.lines = opened.lines;
  feed.reader = fmt::format("`{}`", tensor.name);
  opened.file->require(tensor.type, feed.reader);
  feed.sample_position = sample_position(tensor);
  if (feed.sample_position >= 0) feed.sample_dims = static_cast<int>(info_.sample_dims.size());

  // What an entry of the file must look like: the input's dims without samples and window.
  std::vector<int64_t> file_entry = opened.file->shape(), entry;
  for (size_t d = 0; d < tensor.dims.size(); ++d)
    if (!is_sample(feed, d)) entry.push_back(tensor.dims[d].size);
  if (opened.window > 0) {
    if (entry.empty() || entry[0] != opened.window)
      throw run_.error(source.mark, fmt::format("`{}` {} does not begin with a window of {}", tensor.name,
                                                shape_of(tensor), opened.window));
    entry.erase(entry.begin());
  }
  if (feed.sample_position < 0 && !file_entry.empty()) file_entry[0] = opened.end - opened.begin;
  else if (!file_entry.empty()) file_entry.erase(file_entry.begin());
  if (!merges_or_splits(file_entry, entry)) {
    const bool long_row = file_entry.empty() && opened.window == 0 && feed.sample_position == 0 && !entry.empty();
    throw run_.error(source.mark,
                     fmt::format("`{}` has the shape [{}], which does not fit `{}` {}", opened.file->path(),
                                 fmt::join(opened.file->shape(), ", "), tensor.name, shape_of(tensor)),
                     long_row ? fmt::format("to cut it into windows, add `window: {}`",
                                            tensor.dims[static_cast<size_t>(feed.sample_dims)].name)
                              : "");
  }
  const std::span<const int64_t> shape = opened.file->shape();
  const int64_t entry_elements = shape.empty() ? 1 : product(shape.subspan(1));
  feed.first = (opened.begin + source.shift.value) * entry_elements;
  feed.stride = std::max<int64_t>(1, opened.window) * entry_elements;
  if (opened.lines != nullptr) window_ = std::max(window_, entry_elements);
  if (feed.sample_position >= 0) {
    batch_size_ = 1;
    for (size_t d = 0; d < tensor.dims.size(); ++d) batch_size_ *= is_sample(feed, d) ? tensor.dims[d].size : 1;
    count_samples(opened);
  }
  plan_reads(feed);
  return feed;
}

int Batches::sample_position(const Tensor& tensor) const {
  if (tensor.role != Role::input || info_.sample_dims.empty()) return -1;
  const auto found = std::find_if(tensor.dims.begin(), tensor.dims.end(),
                                  [&](const LocalDim& d) { return d.name == info_.sample_dims[0]; });
  return found == tensor.dims.end() ? -1 : static_cast<int>(found - tensor.dims.begin());
}

// All inputs must agree on the number of samples; inputs of one file do, whatever their shifts.
void Batches::count_samples(const Opened& opened) {
  int64_t reach = 0;
  for (const Source& other : sources_)
    if (other.of.given() && other.of.value == opened.base->input) reach = std::max(reach, other.shift.value);
  const int64_t window = std::max<int64_t>(1, opened.window), entries = opened.end - opened.begin;
  const int64_t samples = std::max<int64_t>(0, entries - reach) / window;
  if (samples == 0)
    throw run_.error(opened.base->mark,
                     fmt::format("entries {} to {} of `{}` do not hold one sample of {}{}", opened.begin, opened.end,
                                 opened.file->path(), window, reach > 0 ? fmt::format(" shifted by {}", reach) : ""));
  if (counted_ != nullptr && samples != samples_)
    throw run_.error(
        opened.base->mark,
        fmt::format("`{}` has {} samples, but `{}` has {}", opened.base->input, samples, counted_->input, samples_),
        opened.lines != nullptr ? "line by line, every input needs the same number"
                                : "every input needs the same number");
  counted_ = opened.base;
  samples_ = samples;
  window_ = std::max(window_, window);
}

void Batches::check_names() const {
  std::vector<std::string> inputs;
  for (const Tensor& tensor : tensors_)
    if (tensor.role == Role::input || (tensor.role == Role::state && section_ == "data")) inputs.push_back(tensor.name);
  for (const Source& source : sources_)
    if (std::find(inputs.begin(), inputs.end(), source.input) == inputs.end())
      throw run_.error(source.mark, fmt::format("`{}` has no input `{}`", info_.name, source.input),
                       suggestion(source.input, inputs, "inputs"));
}

const Source& Batches::source_of(const std::string& input) const {
  const auto found =
      std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) { return source.input == input; });
  if (found == sources_.end() && section_ == "validation")
    throw run_.error(run_.validation.mark, fmt::format("`validation` has no source for `{}`", input),
                     "write its file here too, or the part of it that training leaves out");
  if (found == sources_.end())
    throw Failure(Cause::data,
                  fmt::format("input `{}` has no source: add `{}: {{ {}: {{file: PATH}} }}` to the run file", input,
                              section_, input));
  return *found;
}

Batches::Opened Batches::open(const Source& base) {
  const Tensor& tensor =
      *std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == base.input; });
  Opened opened;
  opened.base = &base;
  for (const Feed& feed : feeds_)
    if (feed.tensor->name == base.input) opened.file = feed.file;
  if (opened.file == nullptr && base.by_lines()) opened.file = open_lines(base, tensor);
  if (opened.file == nullptr)
    opened.file = std::make_shared<const NumberFile>(NumberFile::open(base.file.value, base.type.value));
  opened.lines = dynamic_cast<const LineFile*>(opened.file.get());
  const std::vector<int64_t>& shape = opened.file->shape();
  const int64_t entries = shape.empty() ? 1 : shape[0];
  opened.begin = base.from.given() ? base.from.value.of(entries) : 0;
  opened.end = base.to.given() ? base.to.value.of(entries) : entries;
  for (const Given<Cut>& cut : {base.from, base.to})
    if (cut.given() && cut.value.of(entries) > entries)
      throw run_.error(cut.mark, fmt::format("`{}` has only {} entries", opened.file->path(), entries));
  if (opened.begin > opened.end)
    throw run_.error(base.from.mark, fmt::format("the part of `{}` would end at {}, before it begins at {}",
                                                 opened.file->path(), opened.end, opened.begin));
  if (base.window.given()) opened.window = window_size(base, tensor);
  return opened;
}

int64_t Batches::window_size(const Source& source, const Tensor& tensor) const {
  const int sample = sample_position(tensor);
  const size_t first = sample == 0 ? info_.sample_dims.size() : 0;
  const bool fits = sample >= 0 && first < tensor.dims.size() && tensor.dims[first].name == source.window.value;
  if (fits) return tensor.dims[first].size;
  throw run_.error(
      source.window.mark,
      fmt::format("`{}` {} cannot be read by windows along `{}`", tensor.name, shape_of(tensor), source.window.value),
      sample < 0 ? "it has no dim of samples"
      : first < tensor.dims.size()
          ? fmt::format("a window fills its first dim besides the samples, `{}`", tensor.dims[first].name)
          : "it has no dim besides the samples");
}

// Elements are read in runs that are contiguous in file and tensor: the longest row of last dims of which all but the
// first are whole here, and which the sample dim does not interrupt.
void Batches::plan_reads(Feed& feed) {
  const std::vector<LocalDim>& dims = feed.tensor->dims;
  feed.step.assign(dims.size(), 0);
  int64_t step = 1;
  bool contiguous = true;
  for (size_t d = dims.size(); d-- > 0;) {
    if (is_sample(feed, d)) {
      contiguous = false;
      continue;
    }
    feed.step[d] = step;
    step *= dims[d].size;
    if (!contiguous) continue;
    feed.run *= dims[d].end - dims[d].begin;
    ++feed.run_dims;
    contiguous = dims[d].end - dims[d].begin == dims[d].size;
  }
}

void Batches::fill(int64_t position) const {
  for (const Feed& feed : feeds_) fill(feed, position);
}

int64_t Batches::sample_at(int64_t position) const {
  const int64_t pass = position / samples_, number = position % samples_;
  if (!order_) return number;
  return Permutation(samples_, RandomKey(*order_, "data").at(static_cast<uint64_t>(pass)))(number);
}

void Batches::fill_state() const {
  for (const Feed& feed : state_) fill(feed, 0);
}

void Batches::fill(const Feed& feed, int64_t position) const {
  const Tensor& tensor = *feed.tensor;
  if (tensor.local_elements() == 0) return;
  const size_t outer = tensor.dims.size() - feed.run_dims;
  std::vector<int64_t> index(tensor.dims.size());
  for (size_t d = 0; d < index.size(); ++d) index[d] = tensor.dims[d].begin;
  auto* to = static_cast<std::byte*>(tensor.data);
  const std::byte* const end = to + tensor.local_elements() * element_size(tensor);
  while (to < end) {
    int64_t from = feed.first, sample = 0;
    for (size_t d = 0; d < index.size(); ++d)
      if (is_sample(feed, d)) sample = sample * tensor.dims[d].size + index[d];
      else from += index[d] * feed.step[d];
    if (feed.sample_dims > 0) from += place_of(sample_at(position + sample)) * feed.stride;
    feed.file->read(from, feed.run, tensor.type, tensor.index_bound, feed.reader, to);
    to += feed.run * element_size(tensor);
    for (size_t d = outer; d-- > 0;) {
      if (++index[d] < tensor.dims[d].end) break;
      index[d] = tensor.dims[d].begin;
    }
  }
}

}  // namespace meshrt
