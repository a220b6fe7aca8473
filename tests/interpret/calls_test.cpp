// Products, lookups, attention, copies and loops of the interpreter against plain loops.
#include <cmath>

#include "meshrt/activation.h"
#include "meshrt/math.h"
#include "tests/interpret/hand_made.h"

namespace mesh::tests {
namespace {

using F = MapFunction;

// Every way in which two matrices can share dims: what is in which, and in which order in memory.
struct Grouping {
  const char* name;
  std::vector<char> a, b, c;  // dims in memory, one letter each
  std::vector<char> batch, rows, inner, cols;
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const Grouping& grouping, std::ostream* out) { *out << grouping.name; }

class Products : public testing::TestWithParam<Grouping> {};

int64_t size_of(char dim) {
  return dim == 'b' ? 2 : dim == 'm' ? 9 : dim == 'n' ? 35 : dim == 'k' ? 21 : dim == 'o' ? 3 : 4;
}

template <class T>
void compare_product(const Grouping& grouping, bool accumulate) {
  constexpr Type type = meshrt::type_of<T>;
  HandMade made;
  std::map<char, DimId> dims;
  const auto ids = [&](const std::vector<char>& letters) {
    std::vector<DimId> all;
    for (const char letter : letters) {
      if (!dims.contains(letter)) dims[letter] = made.dim(std::string(1, letter), size_of(letter));
      all.push_back(dims[letter]);
    }
    return all;
  };
  const auto buffer = [&](const char* name, const std::vector<char>& letters) {
    std::vector<LocalDim> held;
    for (const DimId id : ids(letters)) held.push_back(whole(id));
    return made.buffer(name, type, held);
  };
  const BufferId a = buffer("a", grouping.a), b = buffer("b", grouping.b), c = buffer("c", grouping.c);
  ProductStep step{};
  step.a = {a, {}};
  step.b = {b, {}};
  step.c = {c, {}};
  step.batch = ids(grouping.batch);
  step.rows = ids(grouping.rows);
  step.inner = ids(grouping.inner);
  step.cols = ids(grouping.cols);
  step.accumulate = accumulate;
  made.add(std::move(step));
  made.run(
      [&](const View& view) {
        fill_numbers(view.of<T>(a), 1);
        fill_numbers(view.of<T>(b), 2);
        fill_numbers(view.of<T>(c), 3);
      },
      [&](const View& view) {
        const std::vector<char> letters{'b', 'o', 'm', 'n', 'h', 'k'};
        std::map<char, int64_t> at;
        const auto offset = [&](const std::vector<char>& memory) {
          int64_t place = 0;
          for (const char letter : memory) place = place * size_of(letter) + at[letter];
          return static_cast<size_t>(place);
        };
        std::vector<T> expected(view.of<T>(c).size());
        fill_numbers(std::span<T>(expected), 3);
        if (!accumulate) std::ranges::fill(expected, T(0));
        // Inner dims in the order of the step, the last fastest: one chain of fused multiply-adds an element.
        const std::function<void(size_t)> inner = [&](size_t depth) {
          if (depth == grouping.inner.size()) {
            T& sum = expected[offset(grouping.c)];
            sum = std::fma(view.of<T>(a)[offset(grouping.a)], view.of<T>(b)[offset(grouping.b)], sum);
            return;
          }
          for (int64_t i = 0; i < size_of(grouping.inner[depth]); ++i) at[grouping.inner[depth]] = i, inner(depth + 1);
        };
        const std::function<void(size_t)> outer = [&](size_t depth) {
          if (depth == grouping.c.size()) return inner(0);
          for (int64_t i = 0; i < size_of(grouping.c[depth]); ++i) at[grouping.c[depth]] = i, outer(depth + 1);
        };
        outer(0);
        for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(view.of<T>(c)[i], expected[i]) << "element " << i;
      });
}

TEST_P(Products, AreChainsOfFusedMultiplyAdds) {
  compare_product<float>(GetParam(), false);
  compare_product<double>(GetParam(), true);
}

INSTANTIATE_TEST_SUITE_P(
    Groupings, Products,
    testing::Values(Grouping{"plain", {'m', 'k'}, {'k', 'n'}, {'m', 'n'}, {}, {'m'}, {'k'}, {'n'}},
                    Grouping{"a_turned", {'k', 'm'}, {'k', 'n'}, {'m', 'n'}, {}, {'m'}, {'k'}, {'n'}},
                    Grouping{"b_turned", {'m', 'k'}, {'n', 'k'}, {'m', 'n'}, {}, {'m'}, {'k'}, {'n'}},
                    Grouping{"batched", {'b', 'm', 'k'}, {'b', 'k', 'n'}, {'b', 'm', 'n'}, {'b'}, {'m'}, {'k'}, {'n'}},
                    Grouping{
                        "batch_inside", {'m', 'b', 'k'}, {'k', 'b', 'n'}, {'m', 'b', 'n'}, {'b'}, {'m'}, {'k'}, {'n'}},
                    Grouping{"two_rows", {'o', 'm', 'k'}, {'k', 'n'}, {'o', 'm', 'n'}, {}, {'o', 'm'}, {'k'}, {'n'}},
                    Grouping{"two_columns", {'m', 'k'}, {'k', 'h', 'n'}, {'m', 'h', 'n'}, {}, {'m'}, {'k'}, {'h', 'n'}},
                    Grouping{"two_inner", {'m', 'o', 'k'}, {'o', 'k', 'n'}, {'m', 'n'}, {}, {'m'}, {'o', 'k'}, {'n'}},
                    Grouping{"row_loop", {'o', 'k', 'm'}, {'k', 'n'}, {'m', 'o', 'n'}, {'o'}, {'m'}, {'k'}, {'n'}},
                    Grouping{"no_rows", {'k'}, {'k', 'n'}, {'n'}, {}, {}, {'k'}, {'n'}},
                    Grouping{"no_columns", {'m', 'k'}, {'k'}, {'m'}, {}, {'m'}, {'k'}, {}},
                    Grouping{"scalar", {'k'}, {'k'}, {}, {}, {}, {'k'}, {}},
                    Grouping{"outer", {'m'}, {'n'}, {'m', 'n'}, {}, {'m'}, {}, {'n'}},
                    Grouping{"two_batches",
                             {'b', 'o', 'm', 'k'},
                             {'b', 'k', 'o', 'n'},
                             {'b', 'o', 'm', 'n'},
                             {'b', 'o'},
                             {'m'},
                             {'k'},
                             {'n'}}),
    [](const auto& info) { return info.param.name; });

TEST(Product, FinishesItsTiles) {
  HandMade made;
  const DimId m = made.dim("m", 10), n = made.dim("n", 33), k = made.dim("k", 17);
  const std::vector<LocalDim> like_c{whole(m), whole(n)};
  const BufferId a = made.buffer("a", Type::f32, {whole(m), whole(k)}),
                 b = made.buffer("b", Type::f32, {whole(k), whole(n)}), c = made.buffer("c", Type::f32, like_c),
                 bias = made.buffer("bias", Type::f32, {whole(n)}), slope = made.buffer("slope", Type::f32, like_c),
                 times = made.buffer("times", Type::f32, like_c), plus = made.buffer("plus", Type::f32, like_c);
  ProductStep step{};
  step.a = {a, {}}, step.b = {b, {}}, step.c = {c, {}};
  step.rows = {m}, step.inner = {k}, step.cols = {n};
  step.epilogue.bias = Access{bias, {}};
  step.epilogue.slope = Access{slope, {}};
  step.epilogue.times = Access{times, {}};
  step.epilogue.plus = Access{plus, {}};
  step.epilogue.activation = F::gelu;
  made.add(std::move(step));
  made.run(
      [&](const View& view) {
        uint64_t seed = 1;
        for (const BufferId id : {a, b, bias, times, plus}) fill_numbers(view.of<float>(id), seed++);
      },
      [&](const View& view) {
        for (size_t i = 0; i < 10; ++i)
          for (size_t j = 0; j < 33; ++j) {
            float sum = 0;
            for (size_t l = 0; l < 17; ++l)
              sum = std::fma(view.of<float>(a)[i * 17 + l], view.of<float>(b)[l * 33 + j], sum);
            sum += view.of<float>(bias)[j];
            const size_t at = i * 33 + j;
            ASSERT_EQ(view.of<float>(slope)[at], meshrt::gelu_slope(sum));
            ASSERT_EQ(view.of<float>(c)[at], meshrt::gelu(sum) * view.of<float>(times)[at] + view.of<float>(plus)[at]);
          }
      });
}

TEST(Loops, RunForwardAndBackOverStackedBuffers) {
  HandMade made;
  const DimId layer = made.dim("layer", 3), a = made.dim("a", 20);
  const BufferId w = made.buffer("w", Type::f64, {whole(layer), whole(a)}), h = made.buffer("h", Type::f64, {whole(a)}),
                 stash = made.buffer("stash", Type::f64, {whole(layer), whole(a)}),
                 d = made.buffer("d", Type::f64, {whole(a)}),
                 d_w = made.buffer("d_w", Type::f64, {whole(layer), whole(a)});
  const LoopId forward = made.loop(), backward = made.loop();
  const auto step = [](Pass pass) { return Step{Nest{{}, {std::move(pass)}, {}}, Part::forward, {}, "", {}}; };
  PassMaker keep(made.program, {whole(a)}), go(made.program, {whole(a)}), back(made.program, {whole(a)});
  keep.store(keep.load(h), stash, {forward});
  go.store(go.apply(F::multiply, {go.load(h), go.load(w, {forward})}), h);
  back.store(back.apply(F::multiply, {back.load(d), back.load(stash, {backward})}), d_w, {backward});
  back.store(back.apply(F::multiply, {back.load(d), back.load(w, {backward})}), d);
  ForStep up{forward, layer, 3, false, {}}, down{backward, layer, 3, true, {}};
  up.body.push_back(step(keep.pass));
  up.body.push_back(step(go.pass));
  down.body.push_back(step(back.pass));
  made.add(std::move(up));
  made.add(FillStep{{d, {}}, 1});
  made.add(std::move(down));
  made.run(
      [&](const View& view) {
        fill_numbers(view.of<double>(w), 1);
        fill_numbers(view.of<double>(h), 2);
      },
      [&](const View& view) {
        for (size_t i = 0; i < 20; ++i) {
          double start[20];
          fill_numbers(std::span<double>(start), 2);
          double states[4] = {start[i]}, gradient = 1;
          for (size_t l = 0; l < 3; ++l) states[l + 1] = states[l] * view.of<double>(w)[l * 20 + i];
          ASSERT_EQ(view.of<double>(h)[i], states[3]);
          for (size_t l = 3; l-- > 0;) {
            ASSERT_EQ(view.of<double>(d_w)[l * 20 + i], gradient * states[l]);
            gradient *= view.of<double>(w)[l * 20 + i];
          }
          ASSERT_EQ(view.of<double>(d)[i], gradient);
        }
      });
}

TEST(Copies, TurnAndCut) {
  HandMade made({{"x", 2}, {"y", 2}});
  const DimId a = made.dim("a", 5), b = made.dim("b", 6), c = made.dim("c", 3);
  const LocalDim part = split(b, {1}), other = split(a, {0});
  const BufferId from = made.buffer("from", Type::i32, {whole(a), part, whole(c)}),
                 to = made.buffer("to", Type::i32, {whole(c), other, part});
  made.add(CopyStep{{from, {}}, {to, {}}});
  made.run(
      [&](const View& view) {
        const Range held = view.range(part);
        size_t at = 0;
        for (int32_t i = 0; i < 5; ++i)
          for (int64_t j = held.begin; j < held.end; ++j)
            for (int32_t k = 0; k < 3; ++k) view.of<int32_t>(from)[at++] = i * 100 + static_cast<int32_t>(j) * 10 + k;
      },
      [&](const View& view) {
        const Range held = view.range(part), wanted = view.range(other);
        size_t at = 0;
        for (int64_t k = 0; k < 3; ++k)
          for (int64_t i = wanted.begin; i < wanted.end; ++i)
            for (int64_t j = held.begin; j < held.end; ++j) ASSERT_EQ(view.of<int32_t>(to)[at++], i * 100 + j * 10 + k);
      });
}

TEST(Lookup, GivesZerosForRowsOfOtherRanks) {
  HandMade made({{"all", 3}});
  const DimId vocab = made.dim("vocab", 10), embed = made.dim("embed", 4), batch = made.dim("batch", 2),
              seq = made.dim("seq", 6), half = made.dim("half", 2);
  const LocalDim part = split(vocab, {0});
  // The rows are not the table's first dim.
  const BufferId table = made.buffer("table", Type::f32, {whole(half), part, whole(embed)});
  const BufferId ids = made.buffer("ids", Type::i32, {whole(batch), whole(seq)});
  const BufferId out = made.buffer("out", Type::f32, {whole(batch), whole(seq), whole(half), whole(embed)});
  const BufferId d_table = made.buffer("d_table", Type::f32, {whole(half), part, whole(embed)});
  made.add(TakeStep{{table, {}}, {ids, {}}, {out, {}}, vocab});
  made.add(ScatterStep{{ids, {}}, {out, {}}, {d_table, {}}, vocab});
  const auto id_at = [](int64_t i) { return static_cast<int32_t>((i * 7 + 3) % 10); };
  const auto number = [](int64_t h, int64_t v, int64_t e) { return static_cast<float>(h * 100 + v * 10 + e + 1); };
  made.run(
      [&](const View& view) {
        const Range held = view.range(part);
        size_t at = 0;
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t v = held.begin; v < held.end; ++v)
            for (int64_t e = 0; e < 4; ++e) view.of<float>(table)[at++] = number(h, v, e);
        for (int64_t i = 0; i < 12; ++i) view.of<int32_t>(ids)[static_cast<size_t>(i)] = id_at(i);
        fill_numbers(view.of<float>(d_table), 1);  // cleared first
      },
      [&](const View& view) {
        const Range held = view.range(part);
        size_t at = 0;
        std::vector<float> sums(view.of<float>(d_table).size());
        for (int64_t i = 0; i < 12; ++i)
          for (int64_t h = 0; h < 2; ++h)
            for (int64_t e = 0; e < 4; ++e) {
              const int64_t v = id_at(i);
              const bool mine = v >= held.begin && v < held.end;
              ASSERT_EQ(view.of<float>(out)[at++], mine ? number(h, v, e) : 0.0f);
              if (mine) sums[static_cast<size_t>((h * held.size() + v - held.begin) * 4 + e)] += number(h, v, e);
            }
        for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(view.of<float>(d_table)[i], sums[i]);
      });
}

// Grouped heads: keys have no dim `group`; heads split over ranks.
TEST(Attention, EqualsItsDefinition) {
  HandMade made({{"all", 2}});
  const DimId batch = made.dim("batch", 2), query = made.dim("query", 7), key = made.dim("key", 7),
              kv = made.dim("kv", 3), group = made.dim("group", 2), head = made.dim("head", 8);
  const LocalDim heads = split(kv, {0});
  const std::vector<LocalDim> of_query{whole(batch), whole(query), heads, whole(group), whole(head)},
      of_key{whole(batch), whole(key), heads, whole(head)};
  const BufferId q = made.buffer("q", Type::f64, of_query), k = made.buffer("k", Type::f64, of_key),
                 v = made.buffer("v", Type::f64, of_key), out = made.buffer("out", Type::f64, of_query),
                 log_sum = made.buffer("log_sum", Type::f64, {whole(batch), heads, whole(group), whole(query)}),
                 d_out = made.buffer("d_out", Type::f64, of_query), d_q = made.buffer("d_q", Type::f64, of_query),
                 d_k = made.buffer("d_k", Type::f64, of_key), d_v = made.buffer("d_v", Type::f64, of_key);
  AttentionStep step{};
  step.op = {.query = query, .key = key, .head_dim = head, .value_dim = head, .scale = 0.35, .least = 0};
  step.q = {q, {}}, step.k = {k, {}}, step.v = {v, {}}, step.out = {out, {}}, step.log_sum = {log_sum, {}};
  step.batch = {batch, kv, group};
  AttentionStep back = step;
  back.backward = true;
  back.d_out = {d_out, {}}, back.d_q = {d_q, {}}, back.d_k = {d_k, {}}, back.d_v = {d_v, {}};
  made.add(std::move(step));
  made.add(std::move(back));
  made.run(
      [&](const View& view) {
        uint64_t seed = 1;
        for (const BufferId id : {q, k, v, d_out}) fill_numbers(view.of<double>(id), seed++);
      },
      [&](const View& view) {
        const size_t local = static_cast<size_t>(view.range(heads).size());
        const auto at_q = [&](size_t b, size_t s, size_t h, size_t g) {
          return (((b * 7 + s) * local + h) * 2 + g) * 8;
        };
        const auto at_k = [&](size_t b, size_t s, size_t h) { return ((b * 7 + s) * local + h) * 8; };
        std::vector<double> grad_k(view.of<double>(d_k).size()), grad_v(grad_k), grad_q(view.of<double>(d_q).size());
        for (size_t b = 0; b < 2; ++b)
          for (size_t h = 0; h < local; ++h)
            for (size_t g = 0; g < 2; ++g)
              for (size_t s = 0; s < 7; ++s) {
                std::vector<double> p(s + 1), d_p(s + 1);
                double total = 0, mean = 0;
                const double* query_at = view.of<double>(q).data() + at_q(b, s, h, g);
                for (size_t t = 0; t <= s; ++t) {
                  double score = 0;
                  for (size_t e = 0; e < 8; ++e) score += query_at[e] * view.of<double>(k)[at_k(b, t, h) + e];
                  total += p[t] = std::exp(0.35 * score);
                }
                for (size_t t = 0; t <= s; ++t) p[t] /= total;
                for (size_t e = 0; e < 8; ++e) {
                  double expected = 0;
                  const double d = view.of<double>(d_out)[at_q(b, s, h, g) + e];
                  for (size_t t = 0; t <= s; ++t) {
                    expected += p[t] * view.of<double>(v)[at_k(b, t, h) + e];
                    d_p[t] += d * view.of<double>(v)[at_k(b, t, h) + e];
                    grad_v[at_k(b, t, h) + e] += p[t] * d;
                  }
                  ASSERT_NEAR(view.of<double>(out)[at_q(b, s, h, g) + e], expected, 1e-13);
                }
                for (size_t t = 0; t <= s; ++t) mean += p[t] * d_p[t];
                for (size_t t = 0; t <= s; ++t)
                  for (size_t e = 0; e < 8; ++e) {
                    const double d_score = 0.35 * p[t] * (d_p[t] - mean);
                    grad_q[at_q(b, s, h, g) + e] += d_score * view.of<double>(k)[at_k(b, t, h) + e];
                    grad_k[at_k(b, t, h) + e] += d_score * query_at[e];
                  }
              }
        for (size_t i = 0; i < grad_q.size(); ++i) ASSERT_NEAR(view.of<double>(d_q)[i], grad_q[i], 1e-13);
        for (size_t i = 0; i < grad_k.size(); ++i) ASSERT_NEAR(view.of<double>(d_k)[i], grad_k[i], 1e-13);
        for (size_t i = 0; i < grad_v.size(); ++i) ASSERT_NEAR(view.of<double>(d_v)[i], grad_v[i], 1e-13);
      });
}

}  // namespace
}  // namespace mesh::tests
