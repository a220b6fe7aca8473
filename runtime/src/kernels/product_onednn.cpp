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
    auto at = made.find(shape);
    if (at == made.end()) {
      std::unique_ptr<const MatrixPrimitive> primitive(new MatrixPrimitive(dnn, shape));
      at = made.emplace(shape, primitive->primitive_ ? std::move(primitive) : nullptr).first;
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
    const dnnl::Attributes attributes = dnn_.make_attributes();
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

/// Some rows or columns of a product.
struct Piece {
  MatrixShape shape;
  int64_t a, b, c;  ///< where it begins in them
  const MatrixPrimitive* primitive;
};

/// Stretches of rows, or of columns where rows of `a` are not contiguous: so oneDNN copies the least, and has its best
/// kernels. They do not depend on how many threads there are, lest bits do. Empty where one is not to be had.
std::vector<Piece> pieces_of(const OneDnn& dnn, const OfBfloat16& p) {
  constexpr int64_t stretch = 256;
  const bool by_rows = p.a_col == 1;
  const int64_t all = by_rows ? p.rows : p.cols;
  std::vector<Piece> pieces;
  for (int64_t begin = 0; begin < all; begin += stretch) {
    Piece piece{shape_of(p), 0, 0, 0, nullptr};
    (by_rows ? piece.shape.rows : piece.shape.cols) = std::min(stretch, all - begin);
    if (by_rows) piece.a = begin * p.a_row, piece.c = begin * p.c_row;
    else piece.b = begin * p.b_col, piece.c = begin;
    piece.primitive = MatrixPrimitive::of(dnn, piece.shape);
    if (!piece.primitive) return {};
    pieces.push_back(piece);
  }
  return pieces;
}

/// Whether elements of a [rows, cols] matrix are neighbours in rows or in columns, none of which overlap.
bool lies_densely(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  return (col == 1 && (row >= cols || rows == 1)) || (row == 1 && (col >= rows || cols == 1));
}

}  // namespace

bool multiply_onednn(const OneDnn& dnn, const OfBfloat16& p) {
  if (p.rows == 0 || p.cols == 0 || p.inner == 0) return false;
  if (!lies_densely(p.rows, p.inner, p.a_row, p.a_col) || !lies_densely(p.inner, p.cols, p.b_row, p.b_col))
    return false;
  if (p.c_row < p.cols && p.rows > 1) return false;
  const std::vector<Piece> pieces = pieces_of(dnn, p);
  share(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      poll();
      const Piece& piece = pieces[static_cast<size_t>(i)];
      piece.primitive->run(p.a + piece.a, p.b + piece.b, p.c + piece.c);
    }
  });
  return !pieces.empty();
}

bool multiplies_bf16(const OneDnn& dnn) {
  constexpr int64_t n = 64;
  return MatrixPrimitive::of(dnn, {n, n, n, n, 1, n, 1, n, false}) != nullptr;
}

}  // namespace meshrt
