#include "checkpoint/shared_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "checkpoint/output_file.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "report/gather.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

constexpr Site folder_site{-1, "folder of checkpoints"};

bool appears(const std::filesystem::path& file, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds nap(50);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (access(file.c_str(), F_OK) != 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    // Opening the folders around it makes NFS ask anew whether what was not there is there now.
    for (const auto& around : {file.parent_path().parent_path(), file.parent_path()})
      const Descriptor asked(open(around.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::this_thread::sleep_for(nap);
  }
  return true;
}

/// "rank 2 on b, ranks 4, 5 on c and 3 more hosts"
std::string ranks_text(const std::vector<int>& ranks, const Placement& placement) {
  constexpr size_t shown = 4;
  std::map<std::string, std::vector<int>> by_host;
  for (const int rank : ranks) by_host[placement.host_name(rank)].push_back(rank);
  std::vector<std::string> texts;
  for (const auto& [host, here] : by_host)
    if (texts.size() < shown)
      texts.push_back(fmt::format("rank{} {} on {}", here.size() == 1 ? "" : "s", fmt::join(here, ", "), host));
  const size_t more = by_host.size() - texts.size();
  return fmt::format("{}{}", fmt::join(texts, ", "), more == 0 ? "" : fmt::format(" and those of {} more hosts", more));
}

}  // namespace

void require_shared_folder(Rank& rank, const CheckpointFolder& folder, std::chrono::milliseconds patience) {
  const std::string mark = folder.mark();
  if (rank.rank() == 0) write_durably(mark, "");
  barrier(rank, world(rank), folder_site);
  const bool found = appears(std::filesystem::absolute(mark), patience);
  const std::vector<std::string> words = gather_texts(rank, folder_site.value, found ? "found" : "");
  if (rank.rank() != 0) return;
  unlink(mark.c_str());
  std::vector<int> blind;
  for (int r = 0; r < rank.ranks(); ++r)
    if (words[static_cast<size_t>(r)].empty()) blind.push_back(r);
  if (blind.empty()) return;
  if (blind.front() == 0)
    throw Failure(
        Cause::environment,
        fmt::format("`{}` is gone: another run has begun in `{}`: wait for its end, or name another folder with "
                    "`checkpoint.dir`",
                    mark, folder.path()));
  const Placement& placement = rank.transport().placement();
  throw Failure(
      Cause::environment,
      fmt::format("`{}` is not the same folder for all ranks: what rank 0 on {} writes there is not seen by {}\n"
                  "`checkpoint.dir` has to name a folder that all hosts share, by its absolute path if ranks "
                  "start in different folders",
                  folder.path(), placement.host_name(0), ranks_text(blind, placement)));
}

}  // namespace meshrt
