#include "product_onednn.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "meshrt/poll.h"
#include "meshrt/threads.h"
#include "scratch.h"
#include "scratch_places.h"

namespace meshrt {
namespace {

using OfBfloat16 = Product<float, Bfloat16>;

/// What oneDNN compiles a product for.
struct MatrixShape {
  int64_t rows, cols, inner;
  int64_t a_row, a_col, b_row, b_col, c_row;
  bool accumulate;
  auto operator<=>(const MatrixShape&) const = default;
};

MatrixShape shape_of(const OfBfloat16& p) {
  return {p.rows, p.cols, p.inner, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row, p.accumulate};
}

/// A product as oneDNN has compiled it for its shape. Made once a process, and there as long as that lives.
class MatrixPrimitive {
 public:
  /// Null where oneDNN has no kernel of its own for the shape, but a generic one.
  static const MatrixPrimitive* of(const OneDnn& dnn, const MatrixShape& shape) {
    static std::mutex mutex;
    static auto& made = *new std::map<MatrixShape, std::unique_ptr<const MatrixPrimitive>>;
    const std::lock_guard lock(mutex);
    const auto [at, is_new] = made.try_emplace(shape);
    if (is_new) {
      std::unique_ptr<MatrixPrimitive> primitive(new MatrixPrimitive(dnn, shape));
      if (primitive->primitive_) at->second = std::move(primitive);
    }
    return at->second.get();
  }

  /// On the calling thread.
  void run(const Bfloat16* a, const Bfloat16* b, float* c) const {
    void* const own_memory = Scratch::mine().bytes(onednn_product_scratch, dnn_.memory_desc_get_size(scratchpad_));
    const DnnlMemory x(dnn_, a_, a), w(dnn_, b_, b), y(dnn_, c_, c), own(dnn_, *scratchpad_, own_memory);
    const std::array arguments{x.as(dnnl::x), w.as(dnnl::w), y.as(dnnl::y), own.as(dnnl::scratchpad)};
    require_success(
        dnn_.primitive_execute(primitive_, dnn_.stream(), static_cast<int>(arguments.size()), arguments.data()),
        "primitive_execute");
  }

 private:
  MatrixPrimitive(const OneDnn& dnn, const MatrixShape& shape) : dnn_(dnn) {
    a_ = describe({shape.rows, shape.inner}, {shape.a_row, shape.a_col}, dnnl::bf16);
    b_ = describe({shape.inner, shape.cols}, {shape.b_row, shape.b_col}, dnnl::bf16);
    c_ = describe({shape.rows, shape.cols}, {shape.c_row, 1}, dnnl::f32);
    dnn.stream();  // makes the calling thread compute alone, which the primitive remembers
    const auto wanted = std::make_unique<dnnl::OpDesc>();
    if (dnn.matmul_desc_init(wanted.get(), &a_, &b_, nullptr, &c_) != dnnl::success) return;
    const dnnl::Attributes attributes = attributes_of(shape);
    dnnl::PrimitiveDesc desc = nullptr;
    const OneDnn::Status status = dnn.primitive_desc_create(&desc, wanted.get(), attributes, dnn.engine, nullptr);
    dnn.primitive_attr_destroy(attributes);
    if (status != dnnl::success) return;
    const char* name = "";
    require_success(dnn.primitive_desc_query(desc, dnnl::implementation, 0, static_cast<void*>(&name)),
                    "primitive_desc_query");
    if (std::string_view(name).starts_with("ref")) {
      dnn.primitive_desc_destroy(desc);
      return;
    }
    scratchpad_ = dnn.primitive_desc_query_md(desc, dnnl::scratchpad_desc, 0);  // lives as long as desc: for ever
    require_success(dnn.primitive_create(&primitive_, desc), "primitive_create");
  }

  dnnl::MemoryDesc describe(std::array<int64_t, 2> sizes, std::array<int64_t, 2> strides, int type) const {
    dnnl::MemoryDesc desc;
    require_success(dnn_.memory_desc_init_by_strides(&desc, 2, sizes.data(), type, strides.data()),
                    "memory_desc_init_by_strides");
    return desc;
  }

  dnnl::Attributes attributes_of(const MatrixShape& shape) const {
    dnnl::Attributes attributes = nullptr;
    require_success(dnn_.primitive_attr_create(&attributes), "primitive_attr_create");
    require_success(dnn_.primitive_attr_set_scratchpad_mode(attributes, dnnl::scratchpad_of_caller),
                    "primitive_attr_set_scratchpad_mode");
    if (!shape.accumulate) return attributes;
    dnnl::PostOps adds = nullptr;
    require_success(dnn_.post_ops_create(&adds), "post_ops_create");
    require_success(dnn_.post_ops_append_sum(adds, 1), "post_ops_append_sum");
    require_success(dnn_.primitive_attr_set_post_ops(attributes, adds), "primitive_attr_set_post_ops");
    dnn_.post_ops_destroy(adds);
    return attributes;
  }

  const OneDnn& dnn_;
  dnnl::MemoryDesc a_, b_, c_;
  const dnnl::MemoryDesc* scratchpad_ = nullptr;
  dnnl::Primitive primitive_ = nullptr;
};

/// Columns begin .. end of a product.
struct Piece {
  int64_t begin, end;
  const MatrixPrimitive* primitive;
};

/// Stretches of columns that do not depend on how many threads there are, lest bits do. Empty where one is not to be
/// had.
std::vector<Piece> pieces_of(const OneDnn& dnn, const OfBfloat16& p) {
  constexpr int64_t width = 512;
  std::vector<Piece> pieces;
  for (int64_t begin = 0; begin < p.cols; begin += width) {
    MatrixShape shape = shape_of(p);
    shape.cols = std::min(width, p.cols - begin);
    pieces.push_back({begin, begin + shape.cols, MatrixPrimitive::of(dnn, shape)});
    if (!pieces.back().primitive) return {};
  }
  return pieces;
}

}  // namespace

bool multiply_onednn(const OneDnn& dnn, const OfBfloat16& p) {
  if (p.rows == 0 || p.cols == 0 || p.inner == 0) return false;
  if ((p.a_row != 1 && p.a_col != 1) || (p.b_row != 1 && p.b_col != 1)) return false;
  const std::vector<Piece> pieces = pieces_of(dnn, p);
  share(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      poll();
      const Piece& piece = pieces[static_cast<size_t>(i)];
      piece.primitive->run(p.a, p.b + piece.begin * p.b_col, p.c + piece.begin);
    }
  });
  return !pieces.empty();
}

}  // namespace meshrt
