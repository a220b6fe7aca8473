// gather.h: texts of all ranks on every rank.
#pragma once
#include <string>
#include <vector>

#include "meshrt/rank.h"

namespace meshrt {

/// All ranks of the job as a group.
const Group& world(Rank& rank);

/// Everybody's text, by rank. Collective; `what` names it in messages.
std::vector<std::string> gather_texts(Rank& rank, const char* what, const std::string& text);

/// Rank 0's text. Collective.
std::string text_of_rank_0(Rank& rank, const char* what, const std::string& text);

}  // namespace meshrt
