// Runs that begin with parameters of others.
#include "resumed.h"

namespace meshrt {
namespace {

TEST_F(ResumeTest, BeginsFromSeveralFilesAndAsTheSpecSays) {
  run(2, 2, "c", "train.steps=2");
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  const auto save = [&](const std::string& file, const std::vector<std::string>& names) {
    std::vector<NamedArray> tensors;
    for (const std::string& name : names) tensors.push_back(*saved.find(name));
    write_safetensors(folder_.path(file), tensors);
    return folder_.path(file);
  };
  std::vector<std::string> parameters;
  for (const NamedArray& tensor : saved.tensors())
    if (!saved.of_optimizer(tensor.name) && tensor.name != "turns") parameters.push_back(tensor.name);
  std::vector<std::string> others = parameters;
  std::erase(others, "scale");
  const std::string all = save("all.safetensors", parameters), base = save("base.safetensors", others),
                    scale = save("scale.safetensors", {"scale"});
  const auto begin = [&](const std::string& name, const std::string& keys) {
    return run(1, 2, name, "train.steps=3 " + keys);
  };
  const Ran whole = begin("whole", "train.params=" + all);
  ASSERT_EQ(whole.code, 0) << whole.failure;
  const Ran parts = begin("parts", "train.params=[" + base + "," + scale + "]");
  EXPECT_EQ(parts.losses, whole.losses) << parts.failure;
  // Fresh, whether the file has it or not; the rest is the file's.
  const Ran without = begin("without", "train.params=" + base + " train.fresh=[scale]");
  EXPECT_TRUE(without.out.starts_with("train.fresh: scale keeps its initial value\n"))
      << without.out << without.failure;
  EXPECT_EQ(begin("in_it", "train.params=" + all + " train.fresh=[scale]").losses, without.losses);
  EXPECT_NE(without.losses, whole.losses);
  EXPECT_EQ(begin("twice", "train.params=[" + all + "," + scale + "]").failure,
            "`scale` is both in `all.safetensors` and in `scale.safetensors`: which is meant? A file without it can be "
            "written by safetensors in Python");
  const std::string refused = begin("none", "train.params=" + base + " train.fresh=[scael]").failure;
  EXPECT_TRUE(
      refused.starts_with("`base.safetensors` does not fit the program:\n  `scael` names no parameter: did you mean "
                          "`scale`?\n  `scale` i"))
      << refused;
}

TEST_F(ResumeTest, BeginsFromParametersOfOtherNames) {
  run(2, 2, "c", "train.steps=2");
  const SavedTensors saved = SavedTensors::open(folder_.path("c"));
  std::vector<NamedArray> tensors;
  for (NamedArray tensor : saved.tensors()) {
    if (saved.of_optimizer(tensor.name) || tensor.name == "turns" || tensor.name == "scale") continue;
    if (tensor.name == "tile") tensor.name = "h.tile.weight";
    tensors.push_back(tensor);
  }
  tensors.push_back({"extra", Type::f32, {0}, {}});
  write_safetensors(folder_.path("theirs.safetensors"), tensors);
  folder_.write("names.yaml", "tile: h.tile.weight\n");
  const std::string from = "train.steps=1 train.params=" + folder_.path("theirs.safetensors");
  EXPECT_EQ(
      run(1, 1, "a", from).failure,
      "`theirs.safetensors` does not fit the program:\n  `tile` is not in the file\n  `scale` is not in the file\n"
      "  `h.tile.weight` is in the file, but not in the program\n  `extra` is in the file, but not in the program\n"
      "`train.fresh` names parameters that begin as the spec says, by paths or patterns");
  const std::string named = from + " checkpoint.resume=never train.names=" + folder_.path("names.yaml");
  EXPECT_EQ(run(1, 2, "a", named).failure,
            "`theirs.safetensors` does not fit the program:\n  `scale` is not in the file\n  `extra` is in the file, "
            "but not in the program\n`train.fresh` names parameters that begin as the spec says, by paths or patterns");
  const Ran partial = run(1, 2, "a", named + " train.partial=true");
  EXPECT_EQ(partial.code, 0) << partial.failure;
  EXPECT_TRUE(partial.out.starts_with(
      "`theirs.safetensors` lacks scale: it keeps its initial value\n`theirs.safetensors` also has extra: left\n"))
      << partial.out;
  folder_.write("names.yaml", "tyle: x\nrow: [1]\nscale: x\n");
  EXPECT_EQ(run(1, 1, "e", named).failure,
            "`row` is called by a list, not by a name\n  --> names.yaml:2:6\n2 | row: [1]\n  |      ^\n"
            "error: `x` is the name of `tyle` already\n  --> names.yaml:3:8\n3 | scale: x\n  |        ^");
  folder_.write("names.yaml", "tyle: x\n");
  EXPECT_NE(
      run(1, 1, "e", named).failure.find("\n  the map names `tyle`, which the program lacks: did you mean `tile`?"),
      std::string::npos);
  // A folder that has both takes the checkpoint: a run that is started again goes on.
  run(1, 1, "b", "train.steps=3 train.params=" + folder_.path("c"));
  EXPECT_NE(run(1, 1, "b", "train.steps=5 train.params=" + folder_.path("c")).out.find("goes on from b/step-3"),
            std::string::npos);
}

}  // namespace
}  // namespace meshrt
