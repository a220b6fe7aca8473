#include "meshrt/deal.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "meshrt/collectives.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

/// Elements of one part.
std::vector<IndexRange> dealt(int64_t size, const Deal& deal, int64_t part) {
  const auto block = [&](int64_t index, int64_t blocks) {
    return IndexRange{part_begin(size, index, blocks), part_begin(size, index + 1, blocks)};
  };
  std::vector<IndexRange> ranges;
  switch (deal.ownership) {
    case Ownership::block: ranges = {block(part, deal.parts)}; break;
    case Ownership::rounds:
      for (int64_t round = 0; round < deal.rounds; ++round)
        ranges.push_back(block(round * deal.parts + part, deal.rounds * deal.parts));
      break;
    case Ownership::zigzag:
      ranges = {block(part, 2 * deal.parts), block(2 * deal.parts - 1 - part, 2 * deal.parts)};
      break;
    case Ownership::table: ranges = deal.table[static_cast<size_t>(part)]; break;
    case Ownership::stretch: ranges = {{0, size}}; break;
  }
  return ranges;
}

/// visit(range) for all elements from part `first` on in the order in which they are dealt, until it says false.
template <class Visit>
void each_range(int64_t size, const Deal& deal, int64_t first, Visit visit) {
  for (int64_t part = first; part < deal.parts; ++part)
    for (const IndexRange& range : dealt(size, deal, part))
      if (range.size() > 0 && !visit(range)) return;
}

}  // namespace

const char* name_of(Ownership ownership) {
  switch (ownership) {
    case Ownership::block: return "block";
    case Ownership::rounds: return "rounds";
    case Ownership::zigzag: return "zigzag";
    case Ownership::stretch: return "stretch";
    case Ownership::table: break;
  }
  return "table";
}

std::string to_text(const Deal& deal) {
  const std::string parts = std::to_string(deal.parts);
  switch (deal.ownership) {
    case Ownership::block: return "";
    case Ownership::rounds: return "rounds:" + parts + ":" + std::to_string(deal.rounds);
    case Ownership::zigzag: return "zigzag:" + parts;
    case Ownership::stretch:
      return "stretch:" + std::to_string(deal.whole) + ":" + std::to_string(deal.begin) + ":" +
             std::to_string(deal.every);
    case Ownership::table: break;
  }
  std::string text = "table:";
  for (size_t part = 0; part < deal.table.size(); ++part) {
    if (part > 0) text += ";";
    for (size_t i = 0; i < deal.table[part].size(); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(deal.table[part][i].begin) + ".." +
              std::to_string(deal.table[part][i].end);
  }
  return text;
}

namespace {

/// Reads a text from front to back.
struct Reader {
  std::string_view left;
  std::string_view all = left;
  bool take(std::string_view word) {
    if (!left.starts_with(word)) return false;
    left.remove_prefix(word.size());
    return true;
  }
  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), value);
    require(error == std::errc());
    left.remove_prefix(static_cast<size_t>(end - left.data()));
    return value;
  }
  void require(bool holds) const {
    if (!holds) throw Failure(Cause::environment, "no way to deal a dim: " + std::string(all));
  }
};

}  // namespace

Deal deal_of(std::string_view text) {
  Reader reader{text};
  Deal deal;
  if (reader.take("zigzag:")) {
    deal = zigzag(reader.number());
  } else if (reader.take("rounds:")) {
    deal.ownership = Ownership::rounds;
    deal.parts = reader.number();
    reader.require(reader.take(":"));
    deal.rounds = reader.number();
  } else if (reader.take("stretch:")) {
    deal.ownership = Ownership::stretch;
    deal.whole = reader.number();
    reader.require(reader.take(":"));
    deal.begin = reader.number();
    reader.require(reader.take(":"));
    deal.every = reader.number();
  } else if (reader.take("table:")) {
    deal.ownership = Ownership::table;
    do {
      std::vector<IndexRange>& part = deal.table.emplace_back();
      while (!reader.left.empty() && reader.left.front() != ';') {
        const int64_t begin = reader.number();
        reader.require(reader.take(".."));
        part.push_back({begin, reader.number()});
        if (!reader.take(",")) break;
      }
    } while (reader.take(";"));
    deal.parts = static_cast<int64_t>(deal.table.size());
  }
  reader.require(reader.left.empty());
  return deal;
}

int64_t part_begin(int64_t size, const Deal& deal, int64_t index, int64_t parts) {
  if (!deal) return part_begin(size, index, parts);
  if (deal.in_order()) {  // of the elements that stand before the block
    const int64_t before = part_begin(deal.whole, index, parts) - deal.begin;
    return std::clamp<int64_t>((before + deal.every - 1) / deal.every, 0, size);
  }
  const int64_t before = index * (deal.parts / parts);  // parts of the deal
  if (deal.ownership == Ownership::zigzag) {            // as many blocks from either end
    const int64_t blocks = 2 * deal.parts;
    return part_begin(size, before, blocks) + size - part_begin(size, blocks - before, blocks);
  }
  int64_t begin = 0;
  for (int64_t part = 0; part < before; ++part)
    for (const IndexRange& range : dealt(size, deal, part)) begin += range.size();
  return begin;
}

namespace {

/// The part in which a position lies, and where that part begins.
std::pair<int64_t, int64_t> part_around(int64_t size, const Deal& deal, int64_t position) {
  int64_t part = 0, past = deal.parts;
  while (past - part > 1) {
    const int64_t middle = part + (past - part) / 2;
    (part_begin(size, deal, middle, deal.parts) <= position ? part : past) = middle;
  }
  return {part, part_begin(size, deal, part, deal.parts)};
}

}  // namespace

std::vector<IndexRange> ranges_at(int64_t size, const Deal& deal, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  if (deal.in_order()) return {{begin, end}};
  std::vector<IndexRange> ranges;
  auto [first, position] = part_around(size, deal, begin);
  each_range(size, deal, first, [&](const IndexRange& range) {
    const int64_t from = range.begin + std::max<int64_t>(0, begin - position);
    const int64_t to = range.begin + std::min(range.size(), end - position);
    position += range.size();
    if (from < to) {
      if (!ranges.empty() && ranges.back().end == from) ranges.back().end = to;
      else ranges.push_back({from, to});
    }
    return position < end;
  });
  return ranges;
}

std::vector<int64_t> indices_at(int64_t size, const Deal& deal, int64_t begin, int64_t end) {
  std::vector<int64_t> indices;
  for (const IndexRange& range : ranges_at(size, deal, begin, end))
    for (int64_t index = range.begin; index < range.end; ++index) indices.push_back(index);
  return indices;
}

Owners::Owners(int64_t size, int64_t own, int64_t parts, const Deal& deal)
    : own_(own), owner_(static_cast<size_t>(size)), slot_(static_cast<size_t>(size)) {
  for (int64_t part = 0; part < parts; ++part) {
    int64_t slot = 0;
    for (const int64_t index :
         indices_at(size, deal, part_begin(size, deal, part, parts), part_begin(size, deal, part + 1, parts))) {
      owner_[static_cast<size_t>(index)] = part;
      if (part == own) slot_[static_cast<size_t>(index)] = slot++;
    }
  }
}

}  // namespace meshrt
