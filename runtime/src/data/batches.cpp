#include "data/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "system/suggest.h"

namespace meshrt {

namespace {

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Whether validation does not name what it reads: it takes over everything from `data`, also the first value of a
/// state.
bool taken_over(const RunFile& run, const std::string& section, const Source& source) {
  return section == "validation" && std::ranges::find(run.data, source.mark, &Source::mark) != run.data.end();
}

}  // namespace

std::string shape_of(const Tensor& tensor, const ProgramInfo& info) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    const LocalDim& dim = tensor.dims[d];
    const size_t cut = info.sample_dims.size();
    if (cut < 2 || dim.name != info.sample_dims[0] || d + cut > tensor.dims.size()) {
      dims.push_back(fmt::format("{} {}", dim.name, dim.size));
      continue;
    }
    std::vector<int64_t> sizes;  // the spec knows one dim where a step takes samples in parts
    for (size_t i = 0; i < cut; ++i) sizes.push_back(tensor.dims[d + i].size);
    const std::span<const int64_t> parts = std::span(sizes).first(cut - 1);
    dims.push_back(fmt::format("{} {}, as {} parts of {}", info.sample_dim, product(sizes), fmt::join(parts, " x "),
                               sizes.back()));
    d += cut - 1;
  }
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

Batches::Batches(std::span<Tensor> tensors, const ProgramInfo& info, const RunFile& run,
                 const std::vector<Source>& sources, const std::string& section, std::span<const std::string> unread)
    : tensors_(tensors), info_(info), run_(run), sources_(sources), section_(section) {
  check_names(tensors, info, run, sources, section);
  for (const Tensor& tensor : tensors_)
    if (tensor.role == Role::input && std::ranges::count(unread, tensor.name) == 0) feeds_.push_back(make_feed(tensor));
  for (const Tensor& tensor : tensors_)
    if (tensor.role == Role::state && section_ == "data" && names(tensor)) state_.push_back(make_feed(tensor));
  leave_out_long_lines();
  order_samples();
}

bool Batches::names(const Tensor& tensor) const {
  return std::any_of(sources_.begin(), sources_.end(), [&](const Source& s) { return s.input == tensor.name; });
}

Batches::Feed Batches::make_feed(const Tensor& tensor) {
  const Source& source = source_of(tensor.name);
  const Source& base = source.of.given() ? source_of(source.of.value) : source;
  const std::vector<Opened> opened = open(base);
  const int64_t window =
      base.window.given() ? window_size(base, *std::ranges::find(tensors_, base.input, &Tensor::name)) : 0;
  Feed feed;
  feed.tensor = &tensor;
  feed.reader = fmt::format("`{}`", tensor.name);
  feed.sample_position = sample_position(tensor);
  if (feed.sample_position >= 0) feed.sample_dims = static_cast<int>(info_.sample_dims.size());
  if (feed.sample_position < 0 && opened.size() > 1)
    throw run_.error(base.mix,
                     fmt::format("`{}` {} cannot be read from a mixture", tensor.name, shape_of(tensor, info_)),
                     "it has no dim of samples");
  for (const Opened& one : opened) feed.parts.push_back(make_part(feed, source, one, window));
  if (feed.sample_position >= 0) {
    batch_size_ = 1;
    for (size_t d = 0; d < tensor.dims.size(); ++d) batch_size_ *= is_sample(feed, d) ? tensor.dims[d].size : 1;
    count_samples(base, opened, window);
  }
  if (opened[0].lines != nullptr) window_ = std::max(window_, feed.parts[0].stride);
  plan_reads(feed);
  if (tensor.role == Role::input) {
    constexpr size_t line = 64;
    feed.place = bytes_;
    bytes_ += (static_cast<size_t>(tensor.local_elements()) * size_of(tensor.type) + line - 1) / line * line;
  }
  return feed;
}

// What an entry of the file must look like: the input's dims without samples and window.
Batches::Part Batches::make_part(const Feed& feed, const Source& source, const Opened& opened, int64_t window) const {
  const Tensor& tensor = *feed.tensor;
  telling_place(*opened.source, [&] { opened.file->require(tensor.type, feed.reader); });
  std::vector<int64_t> file_entry = opened.file->shape(), entry;
  for (size_t d = 0; d < tensor.dims.size(); ++d)
    if (!is_sample(feed, d)) entry.push_back(tensor.dims[d].size);
  if (window > 0) {
    if (entry.empty() || entry[0] != window)
      throw run_.error(source.mark, fmt::format("`{}` {} does not begin with a window of {}", tensor.name,
                                                shape_of(tensor, info_), window));
    entry.erase(entry.begin());
  }
  if (feed.sample_position < 0 && !file_entry.empty()) file_entry[0] = opened.end - opened.begin;
  else if (!file_entry.empty()) file_entry.erase(file_entry.begin());
  if (!merges_or_splits(file_entry, entry)) {
    const bool long_row = file_entry.empty() && window == 0 && feed.sample_position == 0 && !entry.empty();
    std::string way_out;
    if (long_row)
      way_out = fmt::format("to cut it into windows, add `window: {}`",
                            tensor.dims[static_cast<size_t>(feed.sample_dims)].name);
    else if (feed.sample_position >= 0 && window == 0)
      way_out = fmt::format(
          "its first dim counts samples, as `{}` does, the first dim of the first input: each must be "
          "[{}], not [{}]",
          info_.sample_dim, fmt::join(entry, ", "), fmt::join(file_entry, ", "));
    throw run_.error(opened.source->file.mark,
                     fmt::format("`{}` has the shape [{}], which does not fit `{}` {}", opened.file->path(),
                                 fmt::join(opened.file->shape(), ", "), tensor.name, shape_of(tensor, info_)),
                     way_out);
  }
  const std::span<const int64_t> shape = opened.file->shape();
  const int64_t entry_elements = shape.empty() ? 1 : product(shape.subspan(1));
  return {.source = opened.source,
          .file = opened.file,
          .lines = source_of(source.of.given() ? source.of.value : source.input).longer.value == LongLine::skip
                       ? opened.lines
                       : nullptr,
          .first = (opened.begin + source.shift.value) * entry_elements,
          .stride = std::max<int64_t>(1, window) * entry_elements,
          .reshaped = file_entry != entry};
}

int Batches::sample_position(const Tensor& tensor) const {
  if (tensor.role != Role::input || info_.sample_dims.empty()) return -1;
  const auto found = std::find_if(tensor.dims.begin(), tensor.dims.end(),
                                  [&](const LocalDim& d) { return d.name == info_.sample_dims[0]; });
  return found == tensor.dims.end() ? -1 : static_cast<int>(found - tensor.dims.begin());
}

// All inputs must agree on the number of samples; inputs of one file do, whatever their shifts.
void Batches::count_samples(const Source& base, const std::vector<Opened>& parts, int64_t window) {
  std::vector<int64_t> samples;
  samples.reserve(parts.size());
  for (const Opened& one : parts) samples.push_back(samples_in(base, one, window));
  if (counted_ != nullptr) check_like_counted(base, samples, parts[0].lines != nullptr);
  counted_ = &base;
  samples_ = std::accumulate(samples.begin(), samples.end(), int64_t{0});
  part_samples_ = std::move(samples);
  window_ = std::max(window_, window);
}

int64_t Batches::samples_in(const Source& base, const Opened& opened, int64_t window) const {
  int64_t reach = 0;
  for (const Source& other : sources_)
    if (other.of.given() && other.of.value == base.input) reach = std::max(reach, other.shift.value);
  const int64_t length = std::max<int64_t>(1, window), entries = opened.end - opened.begin;
  const int64_t samples = std::max<int64_t>(0, entries - reach) / length;
  if (samples == 0)
    throw run_.error(opened.source->file.mark,
                     fmt::format("entries {} to {} of `{}` do not hold one sample of {}{}", opened.begin, opened.end,
                                 opened.file->path(), length, reach > 0 ? fmt::format(" shifted by {}", reach) : ""));
  return samples;
}

// A mixture chooses alike for all inputs: its files belong together one by one.
void Batches::check_like_counted(const Source& base, const std::vector<int64_t>& samples, bool by_lines) const {
  if (samples.size() != part_samples_.size())
    throw run_.error(base.mark,
                     fmt::format("`{}` is read from {} file{}, but `{}` from {}", base.input, samples.size(),
                                 samples.size() == 1 ? "" : "s", counted_->input, part_samples_.size()),
                     "all inputs are mixed alike");
  for (size_t i = 0; i < samples.size(); ++i) {
    const FileSource &one = base.files()[i], &other = counted_->files()[i];
    if (one.weight.value != other.weight.value)
      throw run_.error(
          one.weight.given() ? one.weight.mark : one.mark,
          fmt::format("the weight is {} here, but {} for `{}`", one.weight.value, other.weight.value, counted_->input),
          "all inputs are mixed alike");
    if (samples[i] == part_samples_[i]) continue;
    std::string rule =
        by_lines ? "line by line, every input needs the same number" : "every input needs the same number";
    for (const Source* source : {&base, counted_})
      if (taken_over(run_, section_, *source))
        rule += fmt::format("; `validation` does not name `{}`, which is read as in `data`", source->input);
    throw run_.error(
        one.file.mark,
        fmt::format("`{}` has {} samples, but `{}` has {}", base.input, samples[i], counted_->input, part_samples_[i]),
        rule);
  }
}

void Batches::order_samples() {
  if (samples_ == 0) return;
  std::vector<double> weights;
  for (const FileSource& file : counted_->files()) weights.push_back(file.weight.value);
  if (part_samples_.size() == 1) part_samples_ = {samples_};  // without those left out
  order_ = SampleOrder(part_samples_, weights);
  for (size_t i = 0; i < part_samples_.size(); ++i)
    if (order_.share(i) == 0)
      throw run_.error(
          counted_->files()[i].weight.mark,
          fmt::format("the weight {} is too small: not one of {} samples", weights[i], SampleOrder::block));
}

std::string Batches::mixture_text() const {
  std::vector<std::string> parts;
  const std::span<const FileSource> files = mixture()->files();
  for (size_t i = 0; i < files.size(); ++i)
    parts.push_back(fmt::format("{:g} % of {}", 100.0 * static_cast<double>(order_.share(i)) / SampleOrder::block,
                                files[i].file.value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> Batches::reshaped() const {
  std::vector<std::string> told;
  for (const Feed& feed : feeds_)
    for (const Part& part : feed.parts)
      if (part.reshaped)
        told.push_back(fmt::format("`{}` [{}] is read as {} {}", part.file->path(), fmt::join(part.file->shape(), ", "),
                                   feed.reader, shape_of(*feed.tensor, info_)));
  return told;
}

void Batches::check_names(std::span<const Tensor> tensors, const ProgramInfo& info, const RunFile& run,
                          const std::vector<Source>& sources, const std::string& section) {
  std::vector<std::string> inputs;
  for (const Tensor& tensor : tensors)
    if (tensor.role == Role::input || (tensor.role == Role::state && section == "data")) inputs.push_back(tensor.name);
  for (const Source& source : sources)
    if (std::find(inputs.begin(), inputs.end(), source.input) == inputs.end() && !taken_over(run, section, source))
      throw run.error(source.mark, fmt::format("`{}` has no input `{}`", info.name, source.input),
                      suggestion(source.input, inputs, "inputs"));
}

const Source& Batches::source_of(const std::string& input, const std::vector<Source>& sources,
                                 const std::string& section) {
  const auto found =
      std::find_if(sources.begin(), sources.end(), [&](const Source& source) { return source.input == input; });
  if (found == sources.end())
    throw Failure(Cause::data,
                  fmt::format("input `{0}` has no source: add `{1}: {{ {0}: {{file: PATH}} }}` to the run file, or "
                              "`{1}.{0}.file=PATH` to the command line",
                              input, section));
  return *found;
}

std::vector<Batches::Opened> Batches::open(const Source& base) const {
  const Tensor& tensor = *std::ranges::find(tensors_, base.input, &Tensor::name);
  const auto same = [&](const Feed& feed) { return feed.tensor == &tensor; };
  const auto known = std::ranges::find_if(feeds_, same);  // of which this is a shifted copy
  std::vector<Opened> parts;
  for (const FileSource& source : base.files()) {
    Opened one = open_part(base, source, tensor, known == feeds_.end() ? nullptr : known->parts[parts.size()].file);
    parts.push_back(std::move(one));
  }
  return parts;
}

Batches::Opened Batches::open_part(const Source& base, const FileSource& source, const Tensor& tensor,
                                   std::shared_ptr<const NumberArray> file) const {
  Opened opened;
  opened.source = &source;
  opened.file = std::move(file);
  if (opened.file == nullptr) opened.file = open_file(base, source, tensor);
  opened.lines = dynamic_cast<const LineFile*>(opened.file.get());
  const std::vector<int64_t>& shape = opened.file->shape();
  const int64_t entries = shape.empty() ? 1 : shape[0];
  opened.begin = source.from.given() ? source.from.value.of(entries) : 0;
  opened.end = source.to.given() ? source.to.value.of(entries) : entries;
  for (const Given<Cut>& cut : {source.from, source.to})
    if (cut.given() && cut.value.of(entries) > entries)
      throw run_.error(cut.mark, fmt::format("`{}` has only {} entries", opened.file->path(), entries));
  if (opened.begin > opened.end)
    throw run_.error(source.from.mark, fmt::format("the part of `{}` would end at {}, before it begins at {}",
                                                   opened.file->path(), opened.end, opened.begin));
  return opened;
}

std::shared_ptr<const NumberArray> Batches::open_file(const Source& base, const FileSource& source,
                                                      const Tensor& tensor) const {
  if (base.by_lines()) return open_lines(base, tensor);
  return telling_place(source, [&] {
    const std::string& path = source.file.value;
    return std::make_shared<const NumberFile>(source.tokenizer.given()
                                                  ? NumberFile::tokenized(path, source.tokenizer.value)
                                                  : NumberFile::open(path, source.type.value));
  });
}

int64_t Batches::window_size(const Source& source, const Tensor& tensor) const {
  const int sample = sample_position(tensor);
  const size_t first = sample == 0 ? info_.sample_dims.size() : 0;
  const bool fits = sample >= 0 && first < tensor.dims.size() && tensor.dims[first].name == source.window.value;
  if (fits) return tensor.dims[first].size;
  throw run_.error(source.window.mark,
                   fmt::format("`{}` {} cannot be read by windows along `{}`", tensor.name, shape_of(tensor, info_),
                               source.window.value),
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
    contiguous = dims[d].end - dims[d].begin == dims[d].size;  // a whole dim is in order
  }
}

}  // namespace meshrt
