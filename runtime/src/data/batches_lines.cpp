// Files whose lines are samples.
#include <fmt/format.h>

#include <algorithm>

#include "data/batches.h"

namespace meshrt {

std::shared_ptr<const LineFile> Batches::open_lines(const Source& source, const Tensor& tensor) const {
  const size_t samples = info_.sample_dims.size();
  if (sample_position(tensor) < 0 || tensor.dims.size() != samples + 1)
    throw run_.error(source.mark, fmt::format("`{}` {} cannot be read by lines", tensor.name, shape_of(tensor, info_)),
                     "a line is a sample, and fills the one dim beside the samples");
  const Given<int64_t>* const given[] = {&source.pad, &source.start, &source.end};
  for (const Given<int64_t>* mark : given)
    if (mark->given() && tensor.index_bound >= 0 && mark->value >= tensor.index_bound)
      throw run_.error(mark->mark, fmt::format("`{}` takes an index below {}", tensor.name, tensor.index_bound));
  LineMarks marks{.pad = source.pad.value, .start = {}, .end = {}};
  if (source.start.given()) marks.start = source.start.value;
  if (source.end.given()) marks.end = source.end.value;
  const bool first = sample_position(tensor) == 0;
  return telling_place(source, [&] {
    return LineFile::open(source.file.value, source.tokenizer.value, marks, tensor.dims[first ? samples : 0].size);
  });
}

// A sample is left out of all inputs where its line is too long for one of them.
void Batches::leave_out_long_lines() {
  const auto fits = [&](int64_t sample) {
    return std::all_of(feeds_.begin(), feeds_.end(), [&](const Feed& feed) {
      const Part& part = feed.parts[0];  // lines are not mixed
      return part.lines == nullptr || part.lines->fits(part.first / part.stride + sample);
    });
  };
  std::vector<int64_t> kept;
  for (int64_t sample = 0; sample < samples_; ++sample)
    if (fits(sample)) kept.push_back(sample);
  left_out_ = samples_ - static_cast<int64_t>(kept.size());
  if (left_out_ == 0) return;
  if (kept.empty())
    throw run_.error(counted_->mark,
                     fmt::format("each of the {} samples has a line that is longer than its input", samples_),
                     "a longer dim, or `long: cut`, keeps them");
  samples_ -= left_out_;
  kept_ = std::move(kept);
}

}  // namespace meshrt
