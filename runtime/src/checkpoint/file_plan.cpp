#include "checkpoint/file_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace meshrt {

namespace {

/// The tensors of one kind, in files.
class KindPlanner {
 public:
  KindPlanner(FilePlan& plan, std::span<const SavedShape> tensors) : plan_(plan), tensors_(tensors) {}

  void add(const std::string& kind, const std::vector<size_t>& members, int64_t file_bytes) {
    if (members.empty()) return;
    // Wide numbers first, so that all of them lie at multiples of their size.
    std::vector<std::vector<size_t>> files(1);
    int64_t bytes = 0;
    for (const size_t tensor : members) {
      if (!files.back().empty() && bytes + tensors_[tensor].bytes() > file_bytes) files.emplace_back(), bytes = 0;
      files.back().push_back(tensor);
      bytes += tensors_[tensor].bytes();
    }
    nlohmann::json map = nlohmann::json::object();
    int64_t total = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", kind, i + 1, files.size());
      std::ranges::stable_sort(files[i], std::greater{}, [&](size_t t) { return size_of(tensors_[t].type); });
      place(name, files[i]);
      for (const size_t tensor : files[i]) {
        map[tensors_[tensor].name] = name;
        total += tensors_[tensor].bytes();
      }
    }
    const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    plan_.indexes.push_back({kind + ".safetensors.index.json", index.dump(2) + "\n"});
  }

 private:
  void place(const std::string& name, const std::vector<size_t>& members) {
    std::vector<NamedArray> arrays;
    arrays.reserve(members.size());
    for (const size_t tensor : members)
      arrays.push_back({tensors_[tensor].name, tensors_[tensor].type, tensors_[tensor].shape, {}});
    // Readers of the Hugging Face family want to know the framework; numbers in row-major order are "pt".
    FilePlan::File file{name, safetensors_head(arrays, {{"format", "pt"}}), 0};
    file.bytes = static_cast<int64_t>(file.head.size());
    for (const size_t tensor : members) {
      plan_.places[tensor] = {plan_.files.size(), file.bytes};
      file.bytes += tensors_[tensor].bytes();
    }
    plan_.files.push_back(std::move(file));
  }

  FilePlan& plan_;
  std::span<const SavedShape> tensors_;
};

}  // namespace

int64_t SavedShape::bytes() const {
  auto bytes = static_cast<int64_t>(size_of(type));
  for (const int64_t size : shape) bytes *= size;
  return bytes;
}

FilePlan plan_files(std::span<const SavedShape> tensors, int64_t file_bytes) {
  FilePlan plan;
  plan.places.resize(tensors.size());
  for (const bool optimizer : {false, true}) {
    std::vector<size_t> members;
    for (size_t t = 0; t < tensors.size(); ++t)
      if (tensors[t].optimizer == optimizer) members.push_back(t);
    KindPlanner(plan, tensors).add(optimizer ? "optimizer" : "model", members, file_bytes);
  }
  return plan;
}

}  // namespace meshrt
