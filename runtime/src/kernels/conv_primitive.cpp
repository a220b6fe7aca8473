#include "conv_primitive.h"

#include <algorithm>
#include <climits>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

namespace meshrt {
namespace {

using Numbers = std::vector<int64_t>;

/// Strides of dims that lie one in the other, the last innermost.
Numbers strides_of(const Numbers& extents) {
  Numbers strides(extents.size(), 1);
  for (size_t i = extents.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

/// The last ones of three, from the first along which anything moves.
size_t first_moving(const ConvShape& shape) {
  size_t i = 0;
  while (i < 2 && shape.dims[i].wide == 1 && shape.dims[i].narrow == 1 && shape.dims[i].kernel == 1) ++i;
  return i;
}

Numbers along(const ConvShape& shape, int64_t ConvShape::Dim::*what) {
  Numbers all;
  for (size_t i = first_moving(shape); i < shape.dims.size(); ++i) all.push_back(shape.dims[i].*what);
  return all;
}

/// [batch, dims.., channels] in memory, which oneDNN lists as batch, channels, dims..
dnnl::MemoryDesc channels_last(const OneDnn& dnn, int64_t batch, const Numbers& dims, int64_t channels) {
  Numbers lie{batch};
  lie.insert(lie.end(), dims.begin(), dims.end());
  lie.push_back(channels);
  Numbers strides = strides_of(lie);
  const auto listed = [](Numbers all) {
    std::rotate(all.begin() + 1, all.end() - 1, all.end());
    return all;
  };
  dnnl::MemoryDesc desc;
  require_success(dnn.memory_desc_init_by_strides(&desc, static_cast<int>(lie.size()), listed(lie).data(), dnnl::f32,
                                                  listed(strides).data()),
                  "memory_desc_init_by_strides");
  return desc;
}

/// [kernel.., groups, in, out] in memory, which oneDNN lists as groups, out, in, kernel.. , without one group.
struct WeightsDims {
  Numbers sizes, strides;

  WeightsDims(const Numbers& kernel, const ConvExtents& extents) {
    Numbers lie = kernel;
    lie.insert(lie.end(), {extents.groups, extents.in, extents.out});
    const Numbers apart = strides_of(lie);
    const size_t n = kernel.size();
    for (const size_t i : {n, n + 2, n + 1}) sizes.push_back(lie[i]), strides.push_back(apart[i]);
    for (size_t i = 0; i < n; ++i) sizes.push_back(lie[i]), strides.push_back(apart[i]);
    if (extents.groups == 1) sizes.erase(sizes.begin()), strides.erase(strides.begin());
  }
};

/// oneDNN's kernel for AVX-512 (2.6) that makes weights of three dims counts wrong along the slowest one, and writes
/// where nothing is its own, where windows begin more than a stride in front of the dim, and do not come to its begin
/// by whole strides or reach over both its ends.
bool counts_wrong(const ConvShape& shape, std::string_view kernel) {
  const ConvShape::Dim& slow = shape.dims[0];
  return shape.makes == ConvResult::w && first_moving(shape) == 0 && kernel.starts_with("jit:avx512") &&
         slow.before > slow.stride &&
         (slow.before % slow.stride != 0 || slow.wide < (slow.kernel - 1) * slow.dilation + 1);
}

auto key_of(const ConvShape& shape) {
  const ConvExtents& e = shape.extents;
  return std::tuple(shape.makes, e.batch, e.groups, e.in, e.out, shape.dims);
}

}  // namespace

bool ConvShape::operator<(const ConvShape& other) const { return key_of(*this) < key_of(other); }

/// Null where there is none.
dnnl::PrimitiveDesc ConvPrimitive::describe(const ConvShape& shape, ConvResult makes,
                                            dnnl::PrimitiveDesc forward) const {
  const WeightsDims weights(along(shape, &ConvShape::Dim::kernel), shape.extents);
  dnnl::MemoryDesc any;
  require_success(dnn_.memory_desc_init_by_tag(&any, static_cast<int>(weights.sizes.size()), weights.sizes.data(),
                                               dnnl::f32, dnnl::any_format),
                  "memory_desc_init_by_tag");
  const Numbers strides = along(shape, &ConvShape::Dim::stride), before = along(shape, &ConvShape::Dim::before),
                after = along(shape, &ConvShape::Dim::after);
  Numbers dilations = along(shape, &ConvShape::Dim::dilation);
  for (int64_t& dilation : dilations) --dilation;  // it counts what lies between
  const auto wide = std::make_unique<dnnl::OpDesc>();
  const int64_t *s = strides.data(), *d = dilations.data(), *b = before.data(), *a = after.data();
  OneDnn::Status status = dnnl::success;
  switch (makes) {
    case ConvResult::y:
      status = dnn_.dilated_convolution_forward_desc_init(wide.get(), dnnl::forward, dnnl::direct, &x_, &any, nullptr,
                                                          &y_, s, d, b, a);
      break;
    case ConvResult::x:
      status = dnn_.dilated_convolution_backward_data_desc_init(wide.get(), dnnl::direct, &x_, &any, &y_, s, d, b, a);
      break;
    case ConvResult::w:
      status = dnn_.dilated_convolution_backward_weights_desc_init(wide.get(), dnnl::direct, &x_, &any, nullptr, &y_, s,
                                                                   d, b, a);
      break;
  }
  dnnl::PrimitiveDesc made = nullptr;
  if (status != dnnl::success) return nullptr;
  if (dnn_.primitive_desc_create(&made, wide.get(), dnn_.attributes, dnn_.engine, forward) != dnnl::success)
    return nullptr;
  return made;
}

bool ConvPrimitive::make(const ConvShape& shape) {
  const auto& [batch, groups, in, out] = shape.extents;
  x_ = channels_last(dnn_, batch, along(shape, &ConvShape::Dim::wide), groups * in);
  y_ = channels_last(dnn_, batch, along(shape, &ConvShape::Dim::narrow), groups * out);
  dnn_.stream();  // makes the calling thread compute alone, which the primitive remembers
  const dnnl::PrimitiveDesc desc = describe(shape, shape.makes, nullptr);
  if (!desc) return false;
  const char* name = "";
  require_success(dnn_.primitive_desc_query(desc, dnnl::implementation, 0, static_cast<void*>(&name)),
                  "primitive_desc_query");
  const std::string_view kernel = name;
  if ((!kernel.starts_with("jit") && !kernel.starts_with("brg")) || counts_wrong(shape, kernel)) {
    dnn_.primitive_desc_destroy(desc);
    return false;
  }
  const bool of_weights = shape.makes == ConvResult::w;
  // These descriptions live as long as the primitive's, which is for ever.
  description_ = desc;
  weights_ = dnn_.primitive_desc_query_md(desc, of_weights ? dnnl::weights_gradient_desc : dnnl::weights_desc, 0);
  scratchpad_ = dnn_.primitive_desc_query_md(desc, dnnl::scratchpad_desc, 0);
  weights_bytes_ = dnn_.memory_desc_get_size(weights_);
  scratch_bytes_ = dnn_.memory_desc_get_size(scratchpad_);
  const WeightsDims weights(along(shape, &ConvShape::Dim::kernel), shape.extents);
  require_success(dnn_.memory_desc_init_by_strides(&plain_weights_, static_cast<int>(weights.sizes.size()),
                                                   weights.sizes.data(), dnnl::f32, weights.strides.data()),
                  "memory_desc_init_by_strides");
  require_success(dnn_.primitive_create(&convolution_, desc), "primitive_create");
  dnnl::PrimitiveDesc turn = nullptr;
  require_success(dnn_.reorder_primitive_desc_create(&turn, of_weights ? weights_ : &plain_weights_, dnn_.engine,
                                                     of_weights ? &plain_weights_ : weights_, dnn_.engine, nullptr),
                  "reorder_primitive_desc_create");
  require_success(dnn_.primitive_create(&reorder_, turn), "primitive_create");
  dnn_.primitive_desc_destroy(turn);
  return true;
}

const ConvPrimitive* ConvPrimitive::of(const OneDnn& dnn, const ConvShape& shape) {
  static std::mutex mutex;
  static auto& made = *new std::map<ConvShape, std::unique_ptr<const ConvPrimitive>>;  // threads may outlive statics
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = made.try_emplace(shape);
  if (is_new) {
    std::unique_ptr<ConvPrimitive> primitive(new ConvPrimitive(dnn, shape));
    if (primitive->make(shape)) at->second = std::move(primitive);
  }
  return at->second.get();
}

void ConvPrimitive::run(const float* first, const float* second, float* result, void* scratch) const {
  const auto execute = [&](dnnl::Which a, const dnnl::MemoryDesc& a_desc, dnnl::Which b, const dnnl::MemoryDesc& b_desc,
                           dnnl::Which c, const dnnl::MemoryDesc& c_desc) {
    const DnnlMemory a_memory(dnn_, a_desc, first), b_memory(dnn_, b_desc, second), c_memory(dnn_, c_desc, result),
        own(dnn_, *scratchpad_, scratch);
    const std::array arguments{a_memory.as(a), b_memory.as(b), c_memory.as(c), own.as(dnnl::scratchpad)};
    require_success(
        dnn_.primitive_execute(convolution_, dnn_.stream(), static_cast<int>(arguments.size()), arguments.data()),
        "primitive_execute");
  };
  switch (makes_) {
    case ConvResult::y: return execute(dnnl::x, x_, dnnl::w, *weights_, dnnl::y, y_);
    case ConvResult::x: return execute(dnnl::y_gradient, y_, dnnl::w, *weights_, dnnl::x_gradient, x_);
    case ConvResult::w: return execute(dnnl::x, x_, dnnl::y_gradient, y_, dnnl::w_gradient, *weights_);
  }
}

void ConvPrimitive::reorder(const float* from, float* to) const {
  const bool is_result = makes_ == ConvResult::w;
  const DnnlMemory source(dnn_, is_result ? *weights_ : plain_weights_, from),
      target(dnn_, is_result ? plain_weights_ : *weights_, to);
  const std::array arguments{source.as(dnnl::x), target.as(dnnl::y)};
  require_success(dnn_.primitive_execute(reorder_, dnn_.stream(), static_cast<int>(arguments.size()), arguments.data()),
                  "primitive_execute");
}

}  // namespace meshrt
