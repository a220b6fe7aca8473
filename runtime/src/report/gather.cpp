#include "report/gather.h"

#include "meshrt/collectives.h"

namespace meshrt {

const Group& world(Rank& rank) {
  const Axis all[] = {{rank.ranks(), 1}};
  return rank.group(all);
}

std::vector<std::string> gather_texts(Rank& rank, const char* what, const std::string& text) {
  const Site site{-1, what};
  std::vector<int64_t> begin, sizes(rank.ranks());
  for (int r = 0; r <= rank.ranks(); ++r) begin.push_back(r);
  const auto size = static_cast<int64_t>(text.size());
  all_gather(rank, world(rank), site, &size, sizes.data(), {1, begin, 1}, Type::i64);
  for (int r = 0; r < rank.ranks(); ++r) begin[r + 1] = begin[r] + sizes[r];
  std::string all(begin.back(), '\0');
  if (!all.empty()) all_gather(rank, world(rank), site, text.data(), all.data(), {1, begin, 1}, Type::u8);
  std::vector<std::string> texts;
  texts.reserve(sizes.size());
  for (int r = 0; r < rank.ranks(); ++r) texts.push_back(all.substr(begin[r], sizes[r]));
  return texts;
}

std::string text_of_rank_0(Rank& rank, const char* what, const std::string& text) {
  const Site site{-1, what};
  auto size = static_cast<int64_t>(text.size());
  broadcast(rank, world(rank), site, &size, 1, Type::i64, 0);
  std::string copy = text;
  copy.resize(size);
  if (size > 0) broadcast(rank, world(rank), site, copy.data(), size, Type::u8, 0);
  return copy;
}

}  // namespace meshrt
