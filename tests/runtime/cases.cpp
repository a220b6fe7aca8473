#include "cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "meshrt/bfloat16.h"
#include "meshrt/collectives.h"
#include "meshrt/redistribute.h"
#include "oracle.h"

namespace meshrt::test {

namespace {

// ---- one group's cases
// -----------------------------------------------------------------------------------------------

constexpr Type all_types[] = {Type::f32, Type::f64, Type::bf16, Type::f16,
                              Type::i32, Type::i64, Type::u8,   Type::boolean};
constexpr Reduce all_reduces[] = {Reduce::sum, Reduce::max, Reduce::min};
constexpr size_t arena_bytes = size_t{24} << 20;

class Cases {
 public:
  Cases(Rank& rank, const Group& group) : rank_(rank), group_(group) {}

  void run() {
    // Of large groups less: their ranks are more than the cores, and what they do with much the small ones do too.
    const int64_t most = group_.size() > 4 ? 30'011 : 100'003;
    for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1000}, most})
      for (const Type type : all_types)
        for (const bool in_arena : {true, false}) {
          if (!is_tried(type, size)) continue;
          in_arena_ = in_arena;
          salt_ += 17;
          made_.clear();
          for (const Reduce op : all_reduces) all_reduce_case(type, size, op);
          for (const Reduce op : {Reduce::sum, Reduce::max}) reduce_scatter_case(type, size, op);
          all_gather_case(type, size);
          all_to_all_case(type, size, true);
          all_to_all_case(type, size, false);
          if (type == Type::f32 || type == Type::bf16 || type == Type::u8) several_case(type, size);
          broadcast_case(type, size);
          at_one_case(type, size);
          permute_case(type, size);
          if (size > 0) margins_case(type, size);
          dealt_case(type, size);
          redistribute_case(type, size);
          barrier(rank_, group_, {99, "barrier"});
        }
    in_arena_ = true;
    started_case();
  }

 private:
  // Few cores make the largest size slow. What it tries beyond smaller ones, the rounds of a transport, depends on the
  // bytes of an element alone: one type of each width; of six ranks only the whole group has more than one. Nor does it
  // matter to six ranks how elements are added up: again one type of each width.
  bool is_tried(Type type, int64_t size) const {
    const bool six = rank_.ranks() == 6;
    if (six && (type == Type::f16 || type == Type::f64 || type == Type::i32 || type == Type::boolean)) return false;
    if (size <= 10000 || type == Type::f32) return true;
    if (six && members() < 6) return false;
    return type == Type::f64 || type == Type::bf16 || type == Type::u8;
  }

  int members() const { return group_.size(); }
  int me() const { return group_.index; }

  // Buffers: fresh places in the arena, or memory of this rank, misaligned for good measure.
  std::byte* buffer(int64_t bytes) {
    if (in_arena_) {
      std::byte* at = rank_.arena() + used_;
      used_ += (bytes + 64) / 8 * 8;
      if (used_ > arena_bytes) throw std::runtime_error("the test's arena is too small");
      return at;
    }
    own_.emplace_back(bytes + 8);
    return own_.back().data();
  }
  std::byte* buffer(const Bytes& content) {
    std::byte* at = buffer(static_cast<int64_t>(content.size()));
    if (!content.empty()) std::memcpy(at, content.data(), content.size());
    return at;
  }
  void release() {
    used_ = 0;
    own_.clear();
    // A neighbour may still read this rank's last result in its own check only; buffers themselves are free after a
    // call.
  }

  std::vector<Bytes> contributions(Type type, const std::function<int64_t(int)>& count) {
    std::vector<Bytes> all;
    all.reserve(static_cast<size_t>(members()));
    for (int m = 0; m < members(); ++m) all.push_back(made(type, count(m), group_.members[m]));
    return all;
  }
  // Most calls of a case are tried on the same contributions: to make those of all members takes longer than a call.
  const Bytes& made(Type type, int64_t count, int rank) {
    const auto [at, is_new] = made_.try_emplace({type, count, rank, salt_});
    if (is_new) at->second = contribution(type, count, rank, salt_);
    return at->second;
  }

  void expect(const Bytes& wanted, const std::byte* got, const std::string& what) {
    compare(wanted, got, what);
    release();
  }
  void compare(const Bytes& wanted, const std::byte* got, const std::string& what) const {
    if (wanted.empty() || std::memcmp(wanted.data(), got, wanted.size()) == 0) return;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] != got[i])
        throw std::runtime_error(fmt::format("{}, member {} of {}, {}: byte {} is {:#x}, not {:#x}", what, me(),
                                             members(), in_arena_ ? "in the arena" : "outside", i,
                                             static_cast<int>(got[i]), static_cast<int>(wanted[i])));
  }

  // Parts of an extent by a pattern: even, uneven, some empty.
  std::vector<int64_t> parts(int64_t extent, int pattern) const {
    std::vector<int64_t> begin{5};  // not from zero: only differences count
    for (int m = 1; m <= members(); ++m) {
      int64_t at = part_begin(extent, m, members());
      if (pattern == 1) at = m == members() ? extent : extent * m * m / (int64_t{1} * members() * members());
      if (pattern == 2) at = m < members() - 1 ? 0 : extent;  // the last but one has all (or the last of one)
      begin.push_back(5 + at);
    }
    return begin;
  }

  static std::string title(const char* name, Type type, int64_t size, const char* more = "") {
    return fmt::format("{} of {} x {} {}", name, size, name_of(type), more);
  }

  void all_reduce_case(Type type, int64_t size, Reduce op) {
    const auto all = contributions(type, [&](int) { return size; });
    std::byte* data = buffer(all[me()]);
    all_reduce(rank_, group_, {1, "sum"}, data, size, type, op);
    expect(reduce_oracle(type, op, all), data, title("all_reduce", type, size, name_of(op)));
  }

  // Copies the block of `part` (outer, own, inner) from or into a whole (outer, all, inner).
  static void block(Bytes& part, Bytes& whole, const Blocks& b, int k, Type type, bool into_whole) {
    const auto size = static_cast<int64_t>(size_of(type)), all = b.begin.back() - b.begin[0],
               own = b.begin[k + 1] - b.begin[k];
    for (int64_t o = 0; o < b.outer; ++o) {
      std::byte* w = whole.data() + (o * all + b.begin[k] - b.begin[0]) * b.inner * size;
      std::byte* p = part.data() + o * own * b.inner * size;
      if (own > 0 && b.inner > 0)
        into_whole ? std::memcpy(w, p, own * b.inner * size) : std::memcpy(p, w, own * b.inner * size);
    }
  }

  struct Shape {
    int64_t outer, inner;
    int pattern;
  };
  // The oracle takes nearly all of the time, so large values are tried in fewer shapes.
  static std::span<const Shape> shapes_for(int64_t size) {
    static constexpr Shape shapes[] = {{3, 5, 1}, {1, 1, 0}, {2, 1, 2}, {1, 16, 0}};
    return std::span(shapes).first(size > 10000 ? 1 : 4);
  }

  void reduce_scatter_case(Type type, int64_t size, Reduce op) {
    for (const Shape& shape : shapes_for(size)) {
      const int64_t extent = size / (shape.outer * shape.inner);
      const auto begin = parts(extent, shape.pattern);
      const Blocks blocks{shape.outer, begin, shape.inner};
      const auto all = contributions(type, [&](int) { return shape.outer * extent * shape.inner; });
      Bytes whole = reduce_oracle(type, op, all);
      Bytes part(shape.outer * (begin[me() + 1] - begin[me()]) * shape.inner * size_of(type));
      block(part, whole, blocks, me(), type, false);
      const std::byte* from = buffer(all[me()]);
      std::byte* to = buffer(static_cast<int64_t>(part.size()));
      reduce_scatter(rank_, group_, {2, "scatter"}, from, to, blocks, type, op);
      expect(part, to, title("reduce_scatter", type, size, name_of(op)));
    }
  }

  void all_gather_case(Type type, int64_t size) {
    for (const Shape& shape : shapes_for(size)) {
      const int64_t extent = size / (shape.outer * shape.inner);
      const auto begin = parts(extent, shape.pattern);
      const Blocks blocks{shape.outer, begin, shape.inner};
      auto all = contributions(type, [&](int m) { return shape.outer * (begin[m + 1] - begin[m]) * shape.inner; });
      Bytes whole(shape.outer * extent * shape.inner * size_of(type));
      for (int m = 0; m < members(); ++m) block(all[m], whole, blocks, m, type, true);
      const std::byte* from = buffer(all[me()]);
      std::byte* to = buffer(static_cast<int64_t>(whole.size()));
      all_gather(rank_, group_, {3, "gather"}, from, to, blocks, type);
      expect(whole, to, title("all_gather", type, size));
      if (shape.outer == 1) {  // a part that already lies in its place
        std::byte* place = buffer(static_cast<int64_t>(whole.size()));
        std::byte* own = place + (begin[me()] - begin[0]) * shape.inner * size_of(type);
        if (!all[me()].empty()) std::memcpy(own, all[me()].data(), all[me()].size());
        all_gather(rank_, group_, {3, "gather"}, own, place, blocks, type);
        expect(whole, place, title("all_gather in place", type, size));
      }
    }
  }

  // Values of several sizes in one call give what they give one by one.
  void several_case(Type type, int64_t size) {
    const auto bytes_of = [&](int64_t count) { return count * static_cast<int64_t>(size_of(type)); };
    std::vector<Bytes> summed, scattered, gathered;
    std::vector<std::vector<int64_t>> begins;
    std::vector<Whole> wholes;
    std::vector<Scattered> to_scatter;
    std::vector<Gathered> to_gather;
    const std::vector<Shape> shapes{{3, 5, 1}, {1, 1, 0}, {2, 1, 2}, {1, 16, 0}};
    for (const Shape& shape : shapes) {
      salt_ += 1;
      const int64_t extent = (size + shape.outer) / (shape.outer * shape.inner);
      begins.push_back(parts(extent, shape.pattern));
      const std::vector<int64_t>& begin = begins.back();
      const Blocks blocks{shape.outer, begin, shape.inner};
      const int64_t whole = shape.outer * extent * shape.inner,
                    own = shape.outer * (begin[me() + 1] - begin[me()]) * shape.inner;
      const auto all = contributions(type, [&](int) { return whole; });
      summed.push_back(reduce_oracle(type, Reduce::sum, all));
      wholes.push_back({buffer(all[me()]), whole});
      scattered.emplace_back(bytes_of(own));
      block(scattered.back(), summed.back(), blocks, me(), type, false);
      to_scatter.push_back({buffer(all[me()]), buffer(bytes_of(own)), {shape.outer, {}, shape.inner}});
      auto pieces = contributions(type, [&](int m) { return shape.outer * (begin[m + 1] - begin[m]) * shape.inner; });
      gathered.emplace_back(bytes_of(whole));
      for (int m = 0; m < members(); ++m) block(pieces[m], gathered.back(), blocks, m, type, true);
      to_gather.push_back({buffer(pieces[me()]), buffer(bytes_of(whole)), {shape.outer, {}, shape.inner}});
    }
    for (size_t i = 0; i < shapes.size(); ++i) to_scatter[i].blocks.begin = to_gather[i].blocks.begin = begins[i];
    all_reduce(rank_, group_, {10, "sums"}, wholes, type, Reduce::sum);
    reduce_scatter(rank_, group_, {11, "scatters"}, to_scatter, type, Reduce::sum);
    all_gather(rank_, group_, {12, "gathers"}, to_gather, type);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::string what = fmt::format("value {} of several, ", i);
      compare(summed[i], static_cast<std::byte*>(wholes[i].data), what + title("all_reduce", type, size));
      compare(scattered[i], static_cast<std::byte*>(to_scatter[i].part), what + title("reduce_scatter", type, size));
      compare(gathered[i], static_cast<std::byte*>(to_gather[i].whole), what + title("all_gather", type, size));
    }
    release();
  }

  void all_to_all_case(Type type, int64_t size, bool gathers_first) {
    for (int pattern = 0; pattern < 3; ++pattern) {
      const int64_t outer = pattern == 1 ? 2 : 1, middle = pattern == 2 ? 3 : 1, inner = pattern == 0 ? 1 : 2;
      const int64_t side =
          size == 0 ? 0 : std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(size / (outer * middle * inner))));
      const auto first = parts(side, pattern), second = parts(side + 1, (pattern + 1) % 3);
      const Exchange exchange{outer, first, middle, second, inner, gathers_first};
      // Element (o, a, m, b, i) of the whole has a value of its own; rank-independent inputs would hide a wrong sender.
      const auto size_b = static_cast<int64_t>(size_of(type));
      const Bytes& whole = made(type, outer * side * middle * (side + 1) * inner, group_.members[0]);
      const auto cut = [&](bool cut_first) {
        Bytes out;
        const int64_t a0 = cut_first ? first[me()] - 5 : 0, a1 = cut_first ? first[me() + 1] - 5 : side;
        const int64_t b0 = cut_first ? 0 : second[me()] - 5, b1 = cut_first ? side + 1 : second[me() + 1] - 5;
        for (int64_t o = 0; o < outer; ++o)
          for (int64_t a = a0; a < a1; ++a)
            for (int64_t m = 0; m < middle; ++m) {
              const auto row = whole.begin() + (((o * side + a) * middle + m) * (side + 1)) * inner * size_b;
              out.insert(out.end(), row + b0 * inner * size_b, row + b1 * inner * size_b);
            }
        return out;
      };
      const std::byte* from = buffer(cut(gathers_first));
      const Bytes wanted = cut(!gathers_first);
      std::byte* to = buffer(static_cast<int64_t>(wanted.size()));
      all_to_all(rank_, group_, {4, "exchange"}, from, to, exchange, type);
      expect(wanted, to, title("all_to_all", type, size, gathers_first ? "gathers first" : "gathers second"));
    }
  }

  void broadcast_case(Type type, int64_t size) {
    for (int root = 0; root<members(); root += size> 10000 ? std::max(1, members() - 1) : 1) {
      const auto all = contributions(type, [&](int) { return size; });
      std::byte* data = buffer(all[me()]);
      broadcast(rank_, group_, {5, "root"}, data, size, type, root);
      expect(all[root], data, title("broadcast", type, size));
    }
  }

  // From one member to the others, whose buffer the call leaves alone, and from all to one.
  void at_one_case(Type type, int64_t size) {
    for (int root = 0; root<members(); root += size> 10000 ? std::max(1, members() - 1) : 1) {
      const auto all = contributions(type, [&](int) { return size; });
      const std::byte* from = buffer(all[me()]);
      std::byte* to = buffer(static_cast<int64_t>(all[root].size()));
      broadcast(rank_, group_, {13, "one"}, from, to, size, type, root);
      compare(all[me()], from, title("what is broadcast", type, size));
      expect(all[root], to, title("broadcast to another place", type, size));
      from = buffer(all[me()]);
      to = buffer(all[me()]);
      reduce(rank_, group_, {14, "total"}, from, to, size, type, Reduce::sum, root);
      expect(me() == root ? reduce_oracle(type, Reduce::sum, all) : all[me()], to, title("reduce", type, size));
    }
  }

  void permute_case(Type type, int64_t size) {
    for (int shift = 0; shift < (size > 10000 ? std::min(2, members()) : members());
         ++shift) {  // a ring, with a count that depends on the sender
      const int to = (me() + shift) % members(), from = (me() + members() - shift) % members();
      const auto all = contributions(type, [&](int m) { return size ? size + m : 0; });
      const std::byte* send = buffer(all[me()]);
      std::byte* receive = buffer(static_cast<int64_t>(all[from].size()));
      const auto count = [&](int m) { return static_cast<int64_t>(all[m].size() / size_of(type)); };
      permute(rank_, group_, {6, "ring"}, send, count(me()), to, receive, count(from), from, type);
      expect(all[from], receive, title("permute ring", type, size));
    }
    {  // a chain: the ends have one neighbour
      const int to = me() + 1 < members() ? me() + 1 : -1, from = me() - 1;
      const auto all = contributions(type, [&](int) { return size; });
      const std::byte* send = buffer(all[me()]);
      std::byte* receive = buffer(static_cast<int64_t>(all[0].size()));
      permute(rank_, group_, {7, "chain"}, send, size, to, receive, size, from, type);
      expect(from >= 0 ? all[from] : Bytes{}, receive, title("permute chain", type, size));
    }
  }

  // Where row `row` of [size] lies, or -1 where a number stands beyond the ends.
  static int64_t row_beside(const Edge& edge, int64_t row, int64_t size) {
    if (edge.kind == Edge::Kind::wrap) return (row % size + size) % size;
    if (edge.kind == Edge::Kind::clamp) return std::clamp<int64_t>(row, 0, size - 1);
    return row >= 0 && row < size ? row : -1;
  }

  static Bytes two(Type type) {
    Bytes number(size_of(type));
    if (type == Type::f32) put(number.data(), 2.0f);
    if (type == Type::f64) put(number.data(), 2.0);
    if (type == Type::i32) put(number.data(), int32_t{2});
    if (type == Type::i64) put(number.data(), int64_t{2});
    if (type == Type::u8) put(number.data(), uint8_t{2});
    if (type == Type::boolean) put(number.data(), true);
    if (type == Type::bf16) put(number.data(), Bfloat16(2));
    if (type == Type::f16) put(number.data(), Float16(2));
    return number;
  }

  void margins_case(Type type, int64_t size) {
    const bool large = size > 1000;  // one large case crosses the rounds of a transport
    for (const Shape& shape : shapes_for(size)) {
      const Bytes whole = contribution(type, shape.outer * size * shape.inner, 0, ++salt_);
      const std::vector<int64_t> begin = parts(size, shape.pattern);
      for (const Edge edge : {Edge{Edge::Kind::wrap}, Edge{Edge::Kind::clamp}, Edge{Edge::Kind::value, 2}})
        for (const auto& [before, after] :
             {std::pair<int64_t, int64_t>{1, 1}, {0, 3}, {size / 2, 0}, {size - 1, size - 1}}) {
          if (std::max(before, after) >= size || (large && (before != size / 2 || type != Type::f32))) continue;
          margins_case(type, size, {shape.outer, shape.inner, before, after, edge}, begin, whole);
        }
    }
  }

  void margins_case(Type type, int64_t size, const Margins& m, const std::vector<int64_t>& begin, const Bytes& whole) {
    const int64_t first = begin[me()] - begin[0], own = begin[me() + 1] - begin[me()];
    const int64_t row_bytes = m.inner * static_cast<int64_t>(size_of(type)), extent = m.before + own + m.after;
    const Bytes number = two(type);
    Bytes wanted(m.outer * extent * row_bytes), mine(wanted.size(), std::byte{0x5a});  // of `mine` only the own part
    for (int64_t o = 0; o < m.outer; ++o)
      for (int64_t r = 0; r < extent; ++r) {
        const int64_t row = row_beside(m.edge, first - m.before + r, size);
        std::byte* const to = wanted.data() + (o * extent + r) * row_bytes;
        if (row >= 0) std::memcpy(to, whole.data() + (o * size + row) * row_bytes, row_bytes);
        for (int64_t at = 0; row < 0 && at < row_bytes; at += static_cast<int64_t>(number.size()))
          std::memcpy(to + at, number.data(), number.size());
        if (r >= m.before && r < m.before + own) std::memcpy(mine.data() + (o * extent + r) * row_bytes, to, row_bytes);
      }
    std::byte* const data = buffer(mine);
    exchange_margins(rank_, group_, {11, "margins"}, data, begin, m, type);
    const std::string what =
        fmt::format("{} before, {} after, edge {}", m.before, m.after, static_cast<int>(m.edge.kind));
    if (own == 0 && m.edge.kind != Edge::Kind::value)  // which element of its own is at the end, nobody says
      for (int64_t o = 0; o < m.outer; ++o)
        for (int64_t r = 0; r < extent; ++r)
          if (const int64_t row = first - m.before + r; row < 0 || row >= size)
            std::memcpy(wanted.data() + (o * extent + r) * row_bytes, data + (o * extent + r) * row_bytes, row_bytes);
    expect(wanted, data, title("margins", type, size, what.c_str()));
  }

  // Of a value, the part that a rank has which is split so.
  Bytes held(Type type, const Bytes& whole, const std::vector<MovedDim>& dims, bool after, int rank) const {
    std::vector<std::vector<int64_t>> indices;
    for (const MovedDim& dim : dims) {
      const Split& split = after ? dim.after : dim.before;
      int64_t part = 0, parts = 1;
      for (const Axis& axis : split.axes) {
        part = part * axis.size + rank / axis.stride % axis.size;
        parts *= axis.size;
      }
      indices.push_back(indices_at(dim.size, split.deal, part_begin(dim.size, split.deal, part, parts),
                                   part_begin(dim.size, split.deal, part + 1, parts)));
    }
    const size_t size = size_of(type);
    size_t bytes = size;
    for (const std::vector<int64_t>& of_dim : indices) bytes *= of_dim.size();
    Bytes part(bytes);
    std::byte* to = part.data();
    const auto take = [&](const auto& self, size_t dim, int64_t at) -> void {
      if (dim < dims.size()) {
        for (const int64_t index : indices[dim]) self(self, dim + 1, at * dims[dim].size + index);
        return;
      }
      std::memcpy(to, whole.data() + static_cast<size_t>(at) * size, size);
      to += size;
    };
    take(take, 0, 0);
    return part;
  }
  // The busiest as counted element by element, where each has one member alone before.
  void expect_busiest(const std::vector<MovedDim>& dims, const std::string& what) {
    int64_t count = 1;
    for (const MovedDim& dim : dims) count *= dim.size;
    Bytes numbers(static_cast<size_t>(count) * sizeof(int64_t));
    for (int64_t i = 0; i < count; ++i) put(numbers.data() + i * static_cast<int64_t>(sizeof i), i);
    const auto elements_of = [&](int member, bool after) {
      const Bytes part = held(Type::i64, numbers, dims, after, group_.members[static_cast<size_t>(member)]);
      std::vector<int64_t> elements(part.size() / sizeof(int64_t));
      if (!part.empty()) std::memcpy(elements.data(), part.data(), part.size());
      return elements;
    };
    std::vector<int> holder(static_cast<size_t>(count), -1);
    for (int member = 0; member < members(); ++member)
      for (const int64_t element : elements_of(member, false)) {
        if (std::exchange(holder[static_cast<size_t>(element)], member) >= 0) return;
      }
    std::vector<std::map<int, int64_t>> given(static_cast<size_t>(members()));  // by receiver
    std::vector<int64_t> senders(given.size(), 0);
    for (int member = 0; member < members(); ++member)
      for (const int64_t element : elements_of(member, true)) {
        int64_t& elements = given[static_cast<size_t>(holder[static_cast<size_t>(element)])][member];
        if (elements++ == 0 && holder[static_cast<size_t>(element)] != member) ++senders[static_cast<size_t>(member)];
      }
    std::array<int64_t, 3> most{};
    for (int member = 0; member < members(); ++member) {
      int64_t sent = 0, kept = 0, messages = 0;
      for (const auto& [receiver, elements] : given[static_cast<size_t>(member)]) {
        (receiver == member ? kept : sent) += elements;
        messages += receiver != member;
      }
      most = {std::max(most[0], sent), std::max(most[1], kept),
              std::max({most[2], messages, senders[static_cast<size_t>(member)]})};
    }
    const Redistribution::Busiest found = Redistribution::busiest(group_, dims);
    if (std::array{found.sent, found.kept, found.messages} != most)
      throw std::runtime_error(fmt::format("busiest {}: sends {}, keeps {}, exchanges {} messages, not {}, {}, {}",
                                           what, found.sent, found.kept, found.messages, most[0], most[1], most[2]));
  }

  void redistributed(Type type, const std::vector<MovedDim>& dims, const std::string& what) {
    int64_t count = 1;
    for (const MovedDim& dim : dims) count *= dim.size;
    const Bytes whole = contribution(type, count, 0, ++salt_);
    const Bytes wanted = held(type, whole, dims, true, rank_.rank());
    const std::byte* from = buffer(held(type, whole, dims, false, rank_.rank()));
    std::byte* to = buffer(static_cast<int64_t>(wanted.size()));
    redistribute(rank_, group_, {13, "moved"}, from, to, Redistribution(group_, dims), type);
    expect(wanted, to, title("redistribute", type, count, what.c_str()));
    if (me() == 0 && type == Type::f32) expect_busiest(dims, what);
  }

  // Every way to deal a dim to the members becomes every other; and, of what one member holds whole, the order.
  void dealt_case(Type type, int64_t size) {
    if (type != Type::f32 && (type != Type::u8 || size > 100)) return;
    Deal table{Ownership::table, members(), 1, {}};  // the last member has the two ends, the first but one the middle
    for (int m = 0; m < members(); ++m) table.table.emplace_back();
    if (size > 0) table.table.back() = {{0, (size + 2) / 3}};
    if (size > 2) table.table.back().push_back({size - size / 3, size});
    if (size > (size + 2) / 3 + size / 3 * (size > 2))
      table.table.front().insert(table.table.front().begin(), {(size + 2) / 3, size - (size > 2 ? size / 3 : 0)});
    if (members() == 1) table.table = {{{0, size}}};
    const Deal deals[] = {{}, zigzag(members()), rounds(members(), 3), table};
    const Group& alone = rank_.group({});
    for (const Deal& before : deals)
      for (const Deal& after : deals) {
        if (size > 100 && (before.ownership != Ownership::zigzag || after)) continue;
        const std::string what = to_text(before) + " to " + to_text(after);
        redistributed(type, {{2}, {size, {group_.axes, before}, {group_.axes, after}}, {3}}, what);
        const std::vector<MovedDim> own{{2}, {size, {{}, before}, {{}, after}}, {3}};
        const Bytes whole = contribution(type, 6 * size, 0, salt_), all = held(type, whole, own, true, 0);
        const std::byte* from = buffer(held(type, whole, own, false, 0));
        std::byte* to = buffer(static_cast<int64_t>(all.size()));
        reorder(from, to, Redistribution(alone, own), type);
        expect(all, to, title("reorder", type, size, what.c_str()));
      }
  }

  // Two dims, split over any of the group's axes, come to be split over any: parts of unlike sizes, ranks with copies,
  // with nothing.
  void redistribute_case(Type type, int64_t size) {
    if (size != 7 && (size != 1000 || type != Type::f32)) return;
    using Splits = std::array<Split, 2>;
    std::vector<Splits> splits{{}};
    for (const Axis& axis : group_.axes)
      for (size_t i = 0, so_far = splits.size(); i < so_far; ++i)
        for (const size_t dim : {0, 1}) {
          splits.push_back(splits[i]);
          std::vector<Axis>& axes = splits.back()[dim].axes;
          axes.push_back(axis);
          if (axes.size() < 2) continue;
          splits.push_back(splits.back());
          std::ranges::reverse(splits.back()[dim].axes);
        }
    const auto text = [](const Splits& of) {
      std::string all;
      for (const Split& split : of) {
        for (const Axis& axis : split.axes) all += fmt::format("{}x{} ", axis.size, axis.stride);
        all += ", ";
      }
      return all;
    };
    for (const Splits& before : splits)
      for (const Splits& after : splits)
        redistributed(type, {{2}, {size % 53, before[0], after[0]}, {1}, {5, before[1], after[1]}, {3}},
                      text(before) + "to " + text(after));
  }

  // More calls under way than fit, in two groups, finished out of order.
  void started_case() {
    const Group& alone = rank_.group(std::vector<Axis>{});
    constexpr int64_t count = 5000;
    std::vector<std::byte*> data;
    std::vector<Ticket> tickets;
    std::vector<Bytes> wanted;
    for (int i = 0; i < 11; ++i) {
      salt_ += 1;
      const auto all = contributions(Type::f32, [&](int) { return i % 3 ? count : 3; });
      wanted.push_back(reduce_oracle(Type::f32, Reduce::sum, all));
      data.push_back(buffer(all[me()]));
      tickets.push_back(
          all_reduce_start(rank_, group_, {8, "started"}, data.back(), i % 3 ? count : 3, Type::f32, Reduce::sum));
      wait(rank_, all_reduce_start(rank_, alone, {9, "alone"}, data.back(), 3, Type::f32, Reduce::sum));
    }
    for (size_t i = tickets.size(); i-- > 0;) wait(rank_, tickets[i]);
    for (size_t i = 0; i < tickets.size(); ++i) expect(wanted[i], data[i], fmt::format("started call {}", i));
  }

  Rank& rank_;
  const Group& group_;
  bool in_arena_ = true;
  size_t used_ = 0;
  uint64_t salt_ = 1;
  std::vector<Bytes> own_;
  std::map<std::tuple<Type, int64_t, int, uint64_t>, Bytes> made_;  // by type, count, rank and salt
};

}  // namespace

void run_cases(Rank& rank, std::span<const Axis> axes) { Cases(rank, rank.group(axes)).run(); }

void run_all_cases(Rank& rank) {
  rank.allocate(arena_bytes, 1 << 20);
  if (rank.ranks() != 6) return run_cases(rank, std::vector<Axis>{{rank.ranks(), 1}});
  const Axis row{2, 3}, column{3, 1};
  run_cases(rank, std::vector{row});
  run_cases(rank, std::vector{column});
  run_cases(rank, std::vector{row, column});
  run_cases(rank, std::vector{column, row});
}

}  // namespace meshrt::test
