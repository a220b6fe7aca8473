// Each class of products is measured by one or two of its sizes: those of a 384-wide transformer.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "blas.h"
#include "meshrt/failure.h"
#include "meshrt/tune.h"
#include "own_kernels.h"
#include "product_onednn.h"
#include "product_table.h"

namespace meshrt {
namespace {

struct Size {
  ProductClass shape;
  int64_t rows, cols, inner;
  bool a_turned;
};
constexpr Size sizes[] = {{ProductClass::with_epilogue, 512, 1536, 384, false},
                          {ProductClass::thin, 1, 1536, 384, false},
                          {ProductClass::thin, 512, 4, 384, false},
                          {ProductClass::small, 128, 128, 128, false},
                          {ProductClass::matrix, 512, 1152, 384, false},
                          {ProductClass::matrix, 384, 1536, 512, true}};

/// Of the calling thread alone, so that others on the machine count for little.
double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The median, over turns, of the second's time over the first's.
template <class First, class Second>
double ratio_of(double flops, First first, Second second) {
  constexpr int turns = 9;
  const int repeats = std::max(1, static_cast<int>(2e8 / flops));
  const auto seconds = [&](const auto& run) {
    const double start = thread_seconds();
    for (int i = 0; i < repeats; ++i) run();
    return thread_seconds() - start;
  };
  std::vector<double> ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double one = seconds(first);
    ratios.push_back(seconds(second) / one);
  }
  std::ranges::nth_element(ratios, ratios.begin() + turns / 2);
  return ratios[turns / 2];
}

/// A product of numbers of type In that are added up in T.
template <class T, class In = T>
class Sample {
 public:
  explicit Sample(const Size& size)
      : a_(static_cast<size_t>(size.rows * size.inner), In(0.5F)),
        b_(static_cast<size_t>(size.inner * size.cols), In(0.25F)),
        c_(static_cast<size_t>(size.rows * size.cols)),
        slope_(c_),
        bias_(static_cast<size_t>(size.cols)) {
    p.rows = size.rows, p.cols = size.cols, p.inner = size.inner;
    p.a = a_.data(), p.b = b_.data(), p.c = c_.data();
    p.a_row = size.a_turned ? 1 : size.inner, p.a_col = size.a_turned ? size.rows : 1;
    p.b_row = p.c_row = size.cols;
    if (size.shape == ProductClass::with_epilogue) {
      p.epilogue.bias = bias_.data(), p.epilogue.slope = slope_.data();
      p.epilogue.activation = Activation::gelu;
    }
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  double flops() const {
    return 2 * static_cast<double>(p.rows) * static_cast<double>(p.cols) * static_cast<double>(p.inner);
  }

  Product<T, In> p;

 private:
  std::vector<In> a_, b_;
  std::vector<T> c_, slope_, bias_;
};

class Tuner {
 public:
  explicit Tuner(const std::function<void(const TunedRow&)>& see) : see_(see) {
    try {
      blas_.emplace();
    } catch (const Failure&) {  // without it everything is ours
    }
    try {
      dnn_ = &onednn();
    } catch (const Failure&) {}
  }

  std::vector<TunedRow> run() {
    wide<float>(ProductType::f32);
    wide<double>(ProductType::f64);
    const bool in_pairs = pairs();
    const Kernel<float, Bfloat16> own = own_multiply<float, Bfloat16>(in_pairs),
                                  complete = own_complete<float, Bfloat16>();
    each_class<float, Bfloat16>(
        ProductType::bf16, Implementation::onednn,
        [&](const Product<float, Bfloat16>& p) {
          if (!dnn_ || !multiply_onednn(*dnn_, p)) return false;
          complete(p);
          return true;
        },
        own);
    return rows_;
  }

 private:
  template <class T>
  void wide(ProductType type) {
    const Kernel<T> complete = own_complete<T>();
    each_class<T, T>(
        type, Implementation::openblas,
        [&](const Product<T>& p) {
          if (!blas_ || !blas_->multiply(p)) return false;
          complete(p);
          return true;
        },
        own_multiply<T>());
  }

  /// A row for each class: the other one where it is faster in the mean of the class's sizes.
  template <class T, class In, class Other>
  void each_class(ProductType type, Implementation by, Other other, Kernel<T, In> own) {
    constexpr double worth = 0.97;
    for (const ProductClass shape :
         {ProductClass::with_epilogue, ProductClass::thin, ProductClass::small, ProductClass::matrix}) {
      double product = 1;
      int count = 0;
      bool can = true;
      for (const Size& size : sizes) {
        if (size.shape != shape) continue;
        Sample<T, In> sample(size);
        can = can && other(sample.p);
        own(sample.p);
        if (can)
          product *= ratio_of(
              sample.flops(), [&] { own(sample.p); }, [&] { other(sample.p); });
        ++count;
      }
      const double ratio = can ? std::pow(product, 1.0 / count) : 0;
      const std::string& why_not = by == Implementation::onednn ? no_dnn_ : no_blas_;
      add({name_of(type), name_of(shape), name_of(can && ratio < worth ? by : Implementation::own), ratio, why_not});
    }
  }

  /// Whether our kernels had better multiply bf16 in pairs.
  bool pairs() {
    if (supported_instruction_set() < InstructionSet::avx512_bf16) {
      add({"bf16", "in_pairs", "no", 0, "this processor has no vdpbf16ps"});
      return false;
    }
    double product = 1;
    int count = 0;
    for (const Size& size : sizes) {
      if (size.shape != ProductClass::matrix) continue;
      ++count;
      Sample<float, Bfloat16> sample(size);
      const auto widened = own_multiply<float, Bfloat16>(false), in_pairs = own_multiply<float, Bfloat16>(true);
      product *= ratio_of(
          sample.flops(), [&] { widened(sample.p); }, [&] { in_pairs(sample.p); });
    }
    const double ratio = std::pow(product, 1.0 / count);
    add({"bf16", "in_pairs", ratio < 1 ? "yes" : "no", ratio, ""});
    return ratio < 1;
  }

  void add(TunedRow row) {
    see_(row);
    rows_.push_back(std::move(row));
  }

  const std::function<void(const TunedRow&)>& see_;
  std::optional<Blas> blas_;
  const OneDnn* dnn_ = nullptr;
  std::string no_blas_, no_dnn_;  // why they are not there
  std::vector<TunedRow> rows_;
};

}  // namespace

std::vector<TunedRow> tune_products(const std::function<void(const TunedRow&)>& see) { return Tuner(see).run(); }

std::string text_of(const std::vector<TunedRow>& rows, const std::string& machine) {
  std::string text = fmt::format(
      "# Who multiplies matrices on {}, by `meshc doctor --tune`. MESHRT_GEMM names this file.\n"
      "# The number is the time of OpenBLAS or oneDNN over that of our kernels; of in_pairs, of pairs over widened.\n",
      machine);
  for (const TunedRow& row : rows)
    text += fmt::format("{:<4} {:<13} {:<8} {}\n", row.type, row.shape, row.chosen,
                        row.ratio > 0 ? fmt::format("{:.2f}", row.ratio) : "# " + row.why_not);
  return text;
}

bool is_product_table(const std::string& text) {
  try {
    parse_product_table(text, "");
    return true;
  } catch (const Failure&) {
    return false;
  }
}

}  // namespace meshrt
