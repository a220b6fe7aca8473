// Collectives of the interpreter over ranks that are threads, with parts that differ in size.
#include <algorithm>
#include <optional>

#include "tests/interpret/hand_made.h"

namespace mesh::tests {
namespace {

/// The number at a global place of a value, as rank `rank` contributes it.
float number(int64_t i, int64_t j, int64_t k, int64_t rank = 0) {
  return static_cast<float>(i * 10000 + j * 100 + k + rank * 1000000);
}

/// Meshes and how dim `b` of [a, b, c] is split before and after; `axes` is what a movement is over.
struct Case {
  std::vector<std::pair<std::string, int64_t>> mesh;
  std::vector<AxisId> kept, axes;  // b is split over `kept` and, on one side, over `axes` as well
  int64_t size;
};
class Movements : public testing::TestWithParam<Case> {
 protected:
  void build(const std::vector<LocalDim>& before, const std::vector<LocalDim>& after) {
    from = made->buffer("from", Type::f32, before);
    to = made->buffer("to", Type::f32, after);
  }
  template <class Visit>
  static void each(const View& view, const std::vector<LocalDim>& dims, const Visit& visit) {
    size_t at = 0;
    const Range i = view.range(dims[0]), j = view.range(dims[1]), k = view.range(dims[2]);
    for (int64_t x = i.begin; x < i.end; ++x)
      for (int64_t y = j.begin; y < j.end; ++y)
        for (int64_t z = k.begin; z < k.end; ++z) visit(at++, x, y, z);
  }
  /// Every element of `to` is what `expected` says of its place; `from` was filled with this rank's numbers.
  void run(const std::vector<LocalDim>& before, const std::vector<LocalDim>& after, bool by_rank,
           const std::function<float(const View&, int64_t, int64_t, int64_t)>& expected) {
    run_once(before, after, by_rank, expected);
    made->start_and_wait();
    run_once(before, after, by_rank, expected);
  }
  void run_once(const std::vector<LocalDim>& before, const std::vector<LocalDim>& after, bool by_rank,
                const std::function<float(const View&, int64_t, int64_t, int64_t)>& expected) {
    made->run(
        [&](const View& view) {
          each(view, before, [&](size_t at, int64_t i, int64_t j, int64_t k) {
            view.of<float>(from)[at] = number(i, j, k, by_rank ? view.rank() : 0);
          });
        },
        [&](const View& view) {
          each(view, after, [&](size_t at, int64_t i, int64_t j, int64_t k) {
            ASSERT_EQ(view.of<float>(to)[at], expected(view, i, j, k)) << "rank " << view.rank();
          });
        });
  }
  void SetUp() override {
    made.emplace(GetParam().mesh);
    a = made->dim("a", 3), b = made->dim("b", GetParam().size), c = made->dim("c", 5);
    both = GetParam().kept;
    both.insert(both.end(), GetParam().axes.begin(), GetParam().axes.end());
  }
  /// The ranks that differ from this one along the axes only.
  std::vector<int> group(const View& view) const {
    std::vector<int> members;
    const MeshShape& mesh = made->program.sharded.layout.mesh;
    for (int64_t other = 0; other < mesh.ranks(); ++other) {
      bool same = true;
      for (AxisId axis = 0; axis != mesh.axes.size(); ++axis)
        if (std::ranges::find(GetParam().axes, axis) == GetParam().axes.end())
          same = same && mesh.coordinate(other, axis) == mesh.coordinate(view.rank(), axis);
      if (same) members.push_back(static_cast<int>(other));
    }
    return members;
  }
  float sum(const View& view, int64_t i, int64_t j, int64_t k) const {
    float total = 0;
    for (const int member : group(view)) total += number(i, j, k, member);
    return total;
  }

  std::optional<HandMade> made;
  DimId a, b, c;
  std::vector<AxisId> both;
  BufferId from, to;
};

TEST_P(Movements, AllReduce) {
  const std::vector<LocalDim> dims{whole(a), split(b, GetParam().kept), whole(c)};
  from = to = made->buffer("x", Type::f32, dims);
  made->add_collective(CollectiveKind::all_reduce, from, to, GetParam().axes, -1, -1);
  run(dims, dims, true, [&](const View& view, int64_t i, int64_t j, int64_t k) { return sum(view, i, j, k); });
}

TEST_P(Movements, ReduceScatter) {
  const std::vector<LocalDim> before{whole(a), split(b, GetParam().kept), whole(c)},
      after{whole(a), split(b, both), whole(c)};
  build(before, after);
  made->add_collective(CollectiveKind::reduce_scatter, from, to, GetParam().axes, -1, 1);
  run(before, after, true, [&](const View& view, int64_t i, int64_t j, int64_t k) { return sum(view, i, j, k); });
}

TEST_P(Movements, AllGather) {
  const std::vector<LocalDim> before{whole(a), split(b, both), whole(c)},
      after{whole(a), split(b, GetParam().kept), whole(c)};
  build(before, after);
  made->add_collective(CollectiveKind::all_gather, from, to, GetParam().axes, 1, -1);
  run(before, after, false, [](const View&, int64_t i, int64_t j, int64_t k) { return number(i, j, k); });
}

TEST_P(Movements, AllToAllBothWays) {
  for (const bool gathers_first : {true, false}) {
    SetUp();
    const LocalDim b_part = split(b, both), b_whole = split(b, GetParam().kept);
    const DimId other = gathers_first ? c : a;
    const LocalDim other_part = split(other, GetParam().axes), other_whole = whole(other);
    const auto side = [&](const LocalDim& of_b, const LocalDim& of_other) {
      return gathers_first ? std::vector<LocalDim>{whole(a), of_b, of_other}
                           : std::vector<LocalDim>{of_other, of_b, whole(c)};
    };
    const auto before = side(b_part, other_whole), after = side(b_whole, other_part);
    build(before, after);
    made->add_collective(CollectiveKind::all_to_all, from, to, GetParam().axes, 1, gathers_first ? 2 : 0);
    run(before, after, false, [](const View&, int64_t i, int64_t j, int64_t k) { return number(i, j, k); });
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, Movements,
                         testing::Values(Case{{{"x", 2}}, {}, {0}, 7}, Case{{{"x", 4}}, {}, {0}, 7},
                                         Case{{{"x", 4}}, {}, {0}, 3},  // a rank owns nothing
                                         Case{{{"x", 2}, {"y", 2}}, {0}, {1}, 11},
                                         Case{{{"x", 2}, {"y", 2}}, {1}, {0}, 9},
                                         Case{{{"x", 2}, {"y", 2}}, {}, {1, 0}, 10}));

TEST(Permute, GivesEveryPartToItsNewOwner) {
  HandMade made({{"x", 2}, {"y", 2}});
  const DimId a = made.dim("a", 9);
  const LocalDim before = split(a, {0, 1}), after = split(a, {1, 0});
  const BufferId from = made.buffer("from", Type::i32, {before}), to = made.buffer("to", Type::i32, {after});
  made.add_collective(CollectiveKind::permute, from, to, {0, 1}, -1, -1);
  std::get<CollectiveStep>(made.steps[0].what).to_axes = {1, 0};
  for (int way = 0; way < 2; ++way) {
    if (way == 1) made.start_and_wait();
    made.run(
        [&](const View& view) {
          for (int64_t i = 0; i < view.range(before).size(); ++i)
            view.of<int32_t>(from)[static_cast<size_t>(i)] = static_cast<int32_t>(view.range(before).begin + i);
        },
        [&](const View& view) {
          for (int64_t i = 0; i < view.range(after).size(); ++i)
            ASSERT_EQ(view.of<int32_t>(to)[static_cast<size_t>(i)], view.range(after).begin + i);
        });
  }
}

TEST(Halo, FillsMargins) {
  HandMade made({{"x", 4}});
  const DimId a = made.dim("a", 6), b = made.dim("b", 3);  // parts of 1, 2, 1 and 2: margins reach over two of them
  LocalDim wide = split(a, {0}), turned = whole(b);
  wide.placement.margin = {3, 2, {Edge::Kind::clamp}};
  turned.placement.margin = {0, 1, {Edge::Kind::wrap}};
  const BufferId x = made.buffer("x", Type::i32, {wide, turned});
  made.add_collective(CollectiveKind::halo, x, x, {0}, 0, 0);
  made.add_collective(CollectiveKind::halo, x, x, {}, 1, 1);
  for (int way = 0; way < 2; ++way) {
    if (way == 1) made.start_and_wait();
    made.run(
        [&](const View& view) {
          const Range own = view.range(split(a, {0}));
          for (int64_t i = own.begin; i < own.end; ++i)
            for (int64_t j = 0; j < 3; ++j)
              view.of<int32_t>(x)[static_cast<size_t>((i - own.begin + 3) * 4 + j)] = static_cast<int32_t>(10 * i + j);
        },
        [&](const View& view) {
          const Range own = view.range(split(a, {0}));
          for (int64_t i = own.begin - 3; i < own.end + 2; ++i)
            for (int64_t j = 0; j < 4; ++j)
              ASSERT_EQ(view.of<int32_t>(x)[static_cast<size_t>((i - own.begin + 3) * 4 + j)],
                        10 * std::clamp<int64_t>(i, 0, 5) + j % 3);
        });
  }
}

TEST(Tickets, StartNowAndFinishLater) {
  HandMade made({{"x", 4}});
  const DimId a = made.dim("a", 1000);
  const BufferId x = made.buffer("x", Type::f64, {whole(a)}), y = made.buffer("y", Type::f64, {whole(a)});
  made.add_collective(CollectiveKind::all_reduce, x, x, {0}, -1, -1);
  std::get<CollectiveStep>(made.steps[0].what).phase = CollectiveStep::Phase::start;
  PassMaker meanwhile(made.program, {whole(a)});
  meanwhile.store(meanwhile.literal(1, Type::f64), y);
  made.add(Nest{{}, {meanwhile.pass}, {}});
  CollectiveStep wait = std::get<CollectiveStep>(made.steps[0].what);
  wait.phase = CollectiveStep::Phase::wait;
  made.add(wait);
  made.run([&](const View& view) { std::ranges::fill(view.of<double>(x), view.rank() + 1.0); },
           [&](const View& view) {
             for (const double sum : view.of<double>(x)) ASSERT_EQ(sum, 10);
             for (const double one : view.of<double>(y)) ASSERT_EQ(one, 1);
           });
}

}  // namespace
}  // namespace mesh::tests
