#include "codegen/layout/resolve_mesh.h"

#include <algorithm>
#include <numeric>

#include "frontend/size.h"
#include "frontend/suggest.h"

namespace mesh {

SizeScope sizes_of(const Graph& graph, const Declarations& declared, const LayoutOptions& options,
                   DiagnosticSink& sink) {
  SizeScope scope;
  scope.find = [&](const std::string& name) -> std::optional<NamedSize> {
    for (const Dim& dim : graph.dims)
      if (dim.name == name) return NamedSize{Rational(dim.size), dim.span, {}};
    for (const ast::Constant* constant : declared.constants) {
      if (constant->name.text != name) continue;
      const auto set = options.set.find(name);
      const auto value = set != options.set.end()
                             ? Rational::parse(set->second)
                             : evaluate_fraction(*constant->value, sizes_of(graph, declared, options, sink), sink);
      return NamedSize{value, constant->name.span, {}};
    }
    return {};
  };
  return scope;
}

namespace {

/// "data=2,model=2": what `--mesh` would take.
std::string sizes_of_two(const ast::Mesh& mesh) {
  std::string sizes;
  for (const ast::Axis& axis : mesh.axes) sizes += (sizes.empty() ? "" : ",") + axis.name.text + "=2";
  return sizes;
}

std::string listed(const ast::Mesh& mesh) {
  std::string names;
  for (const ast::Axis& axis : mesh.axes) names += (names.empty() ? "" : ", ") + axis.name.text;
  return names;
}

void check_named_axes(const ast::Mesh& mesh, const LayoutOptions& options, DiagnosticSink& sink) {
  std::vector<std::string> names;
  for (const ast::Axis& axis : mesh.axes) names.push_back(axis.name.text);
  for (const auto& [name, size] : options.mesh) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      auto report = sink.error("E0410", mesh.name.span, "mesh `{}` has no axis `{}` (--mesh {}={})", mesh.name.text,
                               name, name, size);
      report.here("its axes: {}", listed(mesh));
      if (const auto near = did_you_mean(name, names))
        report.help(fmt::format("did you mean `--mesh {}={}`?", *near, size));
    } else if (size < 1) {
      sink.error("E0410", mesh.name.span, "axis `{}` must have at least 1 rank (--mesh {}={})", name, name, size);
    }
  }
}

constexpr int64_t most_ranks = int64_t{1} << 18;

/// The size that is written, 0 for `*`; nothing when an error was reported.
std::optional<int64_t> written_size(const ast::Axis& axis, const LayoutOptions& options, const SizeScope& scope,
                                    DiagnosticSink& sink) {
  if (!options.mesh.empty()) {
    const auto given = options.mesh.find(axis.name.text);
    return given == options.mesh.end() ? 1 : given->second;
  }
  if (axis.size == nullptr) return 0;
  return evaluate_size(*axis.size, scope, sink, "axis `" + axis.name.text + "`");
}

/// Sizes of all axes that give so many ranks, "data=2,model=4": as they are but for the last one that can take what the
/// others leave; where none can, the last axis takes all.
std::string sizes_for(const MeshShape& mesh, int64_t ranks) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  const int64_t all = mesh.ranks();
  const auto fitting =
      std::find_if(sizes.rbegin(), sizes.rend(), [&](int64_t one) { return ranks % (all / one) == 0; });
  if (fitting == sizes.rend()) {
    std::ranges::fill(sizes, 1);
    sizes.back() = ranks;
  } else {
    *fitting = ranks / (all / *fitting);
  }
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ",", mesh.axes[i].name, sizes[i]);
  return text;
}

/// Gives the axis written `*` what ranks remain, and compares the mesh with `-n`.
bool fit_ranks(const ast::Mesh& written, MeshShape& mesh, const LayoutOptions& options, DiagnosticSink& sink) {
  int64_t named = 1;
  MeshAxis* open = nullptr;
  for (MeshAxis& axis : mesh.axes) {
    if (axis.size > 0) {
      named *= axis.size;
    } else if (open != nullptr) {
      sink.error("E0409", axis.span, "two axes of mesh `{}` take what ranks remain", mesh.name)
          .label(open->span, "the first")
          .help(fmt::format("give one of them a size: `{}: 2`, or all of them: `--mesh {}`", axis.name,
                            sizes_of_two(written)));
      return false;
    } else {
      open = &axis;
    }
  }
  if (open != nullptr) {
    if (!options.ranks) {
      sink.error("E0409", open->span, "axis `{}` takes what ranks remain, and their number is not given", open->name)
          .help(fmt::format("give it: `-n {}`, or every size: `--mesh {}`", 2 * named, sizes_of_two(written)));
      return false;
    }
    if (*options.ranks % named != 0) {
      sink.error("E0409", open->span, "{} ranks do not fill mesh `{}`", *options.ranks, mesh.name)
          .here("the other axes take {}, which does not divide {}", named, *options.ranks)
          .help(fmt::format("give a multiple of {}, such as `-n {}`, or every size: `--mesh {}`", named,
                            (*options.ranks / named + 1) * named, sizes_of_two(written)));
      return false;
    }
    open->size = *options.ranks / named;
    return true;
  }
  if (options.ranks && *options.ranks != named) {
    sink.error("E0409", written.name.span, "mesh `{}` has {} ranks, not {} (-n {})", mesh.name, named, *options.ranks,
               *options.ranks)
        .help(
            fmt::format("leave `-n` out, or give its axes other sizes: `--mesh {}`", sizes_for(mesh, *options.ranks)));
    return false;
  }
  return true;
}

/// Its axes, without strides; one written `*` has size 0. Nothing when an error was reported.
std::optional<MeshShape> axes_of(const ast::Mesh& written, const Declarations& declared, const Graph& graph,
                                 const LayoutOptions& options, DiagnosticSink& sink) {
  const size_t errors_before = sink.error_count();
  const SizeScope scope = sizes_of(graph, declared, options, sink);
  MeshShape mesh{written.name.text, {}, written.name.span};
  check_named_axes(written, options, sink);
  for (const ast::Axis& axis : written.axes) {
    for (const MeshAxis& known : mesh.axes)
      if (known.name == axis.name.text)
        sink.error("E0204", axis.name.span, "mesh `{}` has two axes called `{}`", mesh.name, known.name)
            .label(known.span, "the first");
    const auto size = written_size(axis, options, scope, sink);
    mesh.axes.push_back({axis.name.text, size.value_or(1), 1, axis.span});
    mesh.axes.back().within_node = axis.within.has_value();
    if (axis.within && axis.within->text != "node")
      sink.error("E0409", axis.within->span, "an axis lies `within node` or anywhere, not within `{}`",
                 axis.within->text)
          .help("`within node` asks that its ranks run on one host, and is checked when they start");
  }
  const int64_t ranks =
      std::accumulate(mesh.axes.begin(), mesh.axes.end(), int64_t{1}, [](int64_t n, const MeshAxis& axis) {
        return std::min(n * std::clamp<int64_t>(axis.size, 1, most_ranks + 1), most_ranks + 1);
      });
  if (ranks > most_ranks)
    sink.error("E0409", mesh.span, "mesh `{}` has more than {} ranks", mesh.name, most_ranks)
        .help(fmt::format("the sizes of its axes are multiplied; smaller ones: `--mesh {}`", sizes_of_two(written)));
  if (mesh.axes.empty())
    sink.error("E0409", mesh.span, "mesh `{}` has no axes", mesh.name)
        .help(fmt::format("`mesh {} {{ data: 1 }}` has one, of one rank", mesh.name));
  if (sink.error_count() > errors_before) return {};
  return mesh;
}

}  // namespace

void check_mesh(const ast::Mesh& written, const Declarations& declared, const Graph& graph,
                const LayoutOptions& options, DiagnosticSink& sink) {
  axes_of(written, declared, graph, options, sink);
}

std::optional<MeshShape> resolve_mesh(const ast::Mesh& written, const Declarations& declared, const Graph& graph,
                                      const LayoutOptions& options, DiagnosticSink& sink) {
  std::optional<MeshShape> mesh = axes_of(written, declared, graph, options, sink);
  if (!mesh || !fit_ranks(written, *mesh, options, sink)) return {};
  int64_t stride = 1;
  for (auto axis = mesh->axes.rbegin(); axis != mesh->axes.rend(); ++axis) {
    axis->stride = stride;
    stride *= axis->size;
  }
  return mesh;
}

}  // namespace mesh
