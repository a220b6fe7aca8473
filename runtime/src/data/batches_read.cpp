// Reading batches: from files into memory, and from there into the input tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/batches.h"
#include "files/elements.h"
#include "files/tensor_runs.h"

namespace meshrt {

void Batches::read(int64_t position, int64_t distinct, std::byte* to) const {
  for (const Feed& feed : feeds_) read(feed, position, distinct, to + feed.place);
}

void Batches::put(const std::byte* from) const {
  for (const Feed& feed : feeds_)
    std::memcpy(feed.tensor->data, from + feed.place,
                static_cast<size_t>(feed.tensor->local_elements()) * size_of(feed.tensor->type));
}

void Batches::fill(int64_t position, int64_t distinct) const {
  for (const Feed& feed : feeds_) read(feed, position, distinct, static_cast<std::byte*>(feed.tensor->data));
}

void Batches::fill_state() const {
  for (const Feed& feed : state_) read(feed, 0, 0, static_cast<std::byte*>(feed.tensor->data));
}

bool Batches::fills_state(std::string_view path) const {
  return std::ranges::any_of(state_, [&](const Feed& feed) { return feed.tensor->name == path; });
}

// Visits what lies side by side in file and tensor, in the tensor's order: the file and the first of its elements.
template <class Visit>
void Batches::for_each_run(const Feed& feed, int64_t position, int64_t distinct, Visit visit) const {
  const Tensor& tensor = *feed.tensor;
  if (tensor.local_elements() == 0) return;
  const size_t outer = tensor.dims.size() - feed.run_dims;
  const std::vector<Extent> extents = extents_of(tensor);
  // What one index of the first dim of a run holds; its ranges are runs.
  const int64_t row = feed.run_dims == 0 ? 1 : feed.run / extents[outer].length;
  const std::vector<IndexRange> ranges = feed.run_dims == 0 ? std::vector<IndexRange>{{0, 1}} : extents[outer].ranges;
  std::vector<int64_t> index(outer);
  for (int64_t left = tensor.local_elements(); left > 0; left -= feed.run) {
    int64_t within = 0, sample = 0;
    for (size_t d = 0; d < outer; ++d) {
      const int64_t global = extents[d].index_at(index[d]);
      if (is_sample(feed, d)) sample = sample * tensor.dims[d].size + global;
      else within += global * feed.step[d];
    }
    const Part* part = &feed.parts[0];
    int64_t from = part->first + within;
    if (feed.sample_dims > 0) {
      const SamplePlace place = order_.at(position + sample % distinct);
      part = &feed.parts[place.part];
      from = part->first + within + place_of(place.number) * part->stride;
    }
    for (const IndexRange& range : ranges)
      visit(*part, from + (feed.run_dims == 0 ? 0 : range.begin * feed.step[outer]), range.size() * row);
    for (size_t d = outer; d-- > 0;) {
      if (++index[d] < extents[d].length) break;
      index[d] = 0;
    }
  }
}

void Batches::read(const Feed& feed, int64_t position, int64_t distinct, std::byte* to) const {
  const Tensor& tensor = *feed.tensor;
  for_each_run(feed, position, distinct, [&](const Part& part, int64_t from, int64_t count) {
    telling_place(*part.source,
                  [&] { part.file->read(from, count, tensor.type, tensor.index_bound, feed.reader, to); });
    to += count * static_cast<int64_t>(size_of(tensor.type));
  });
}

std::string Batches::not_finite(int64_t position) const {
  std::string found;
  for (const Feed& feed : feeds_) {
    if (!is_float(feed.tensor->type)) continue;
    std::vector<double> numbers(static_cast<size_t>(feed.run));
    for_each_run(feed, position, batch_size_, [&](const Part& part, int64_t from, int64_t count) {
      if (!found.empty()) return;
      part.file->read(from, count, Type::f64, -1, feed.reader, numbers.data());
      const auto bad = std::ranges::find_if_not(numbers, [](double number) { return std::isfinite(number); });
      if (bad != numbers.end())
        found = fmt::format("{} reads {} from `{}`: {}", feed.reader, *bad, part.file->path(),
                            part.file->place(from + (bad - numbers.begin())));
    });
  }
  return found;
}

}  // namespace meshrt
