"""`meshc plan --html`: the page of every shipped spec and layout is well-formed, needs nothing else, and says what `plan --json` says.

What a page shows is read back from its elements; Chromium, where it is installed, shows some of them, and its console must stay empty.
"""
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

from common import TOP, Report, meshc, scratch
from common import run as execute

SPECS = ("gpt", "gpt2", "heat", "mixtral", "mlp", "translate")
SMALL = (("gpt", "sequence"), ("gpt", "pipe"), ("mixtral", "wide"), ("translate", None), ("heat", None), ("mlp", "both"))
WITH_REMEDIES = (("gpt", "sequence"), ("translate", None), ("mlp", "both"))


def layouts(spec):
    """Those that a spec declares."""
    with open(f"{TOP}/specs/{spec}.mesh") as file:
        return re.findall(r"^layout (\w+)", file.read(), re.M)


def bytes_text(count):
    """As meshc writes it."""
    if count < 1024:
        return f"{count} B"
    size = count / 1024
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.1f} {unit}"
        size /= 1024


def text_of(element):
    return "".join(element.itertext())


class Page:
    """A page as its elements."""

    def __init__(self, text):
        self.text = text
        self.root = xml.fromstring(text)
        self.by_id = {}
        for element in self.root.iter():
            if "id" in element.attrib:
                assert element.get("id") not in self.by_id, f"two elements are called {element.get('id')}"
                self.by_id[element.get("id")] = element

    def rows(self, section):
        """The cells of a section's tables, without those of tables in their cells."""
        found = []
        for table in self.by_id[section].iter("table"):
            captions = table.findall("caption")
            assert len(captions) == 1 and text_of(captions[0]), "a table without a caption"
            if text_of(captions[0]) == "Which ranks hold what":
                continue
            heads = table.findall("thead/tr/th")
            assert heads and all(head.get("scope") == "col" for head in heads), "a table without headings"
            for row in table.findall("tbody/tr"):
                assert row[0].tag == "th" and row[0].get("scope") == "row" and len(row) == len(heads), f"a row of other cells: {text_of(row)}"
                found.append([text_of(cell) for cell in row])
        return found


def faults_of(page):
    """What a page must not have."""
    faults = []
    for element in page.root.iter():
        if element.tag in ("script", "link", "iframe", "object", "img", "base", "form"):
            faults.append(f"<{element.tag}>")
        for name, value in element.attrib.items():
            if name.endswith("href") and (not value.startswith("#") or value[1:] not in page.by_id):
                faults.append(f"{name} {value}")
            if name in ("src", "srcset", "action") or name.startswith("on"):
                faults.append(f"{name} {value}")
            if name == "aria-labelledby" and value not in page.by_id:
                faults.append(f"{name} {value}")
        if element.tag.endswith("svg") and not (element.get("role") == "img" or element.get("aria-hidden") == "true"):
            faults.append("a picture without a name")
    style = text_of(page.root.find("head/style"))
    faults += re.findall(r"url\(|@import|https?:", style)
    levels = [int(e.tag[1]) for e in page.root.iter() if re.fullmatch(r"h[1-6]", e.tag)]
    if levels[:1] != [1] or any(b > a + 1 for a, b in zip(levels, levels[1:])):
        faults.append(f"headings {levels}")
    return faults


def differs(page, plan):
    """Where the page says something else than the plan."""
    found = []
    moved = sorted((c for c in plan["collectives"] if c["bytes"] * c["sending"] > 0), key=lambda c: -c["seconds"] * c["count"])
    rows = page.rows("collectives") if plan["collectives"] else []
    silent = len(plan["collectives"]) - len(moved)
    after = sum(c["bytes"] * c["sending"] > 0 for c in plan.get("outer_step", {}).get("collectives", []))
    if len(rows) != len(moved) + silent + after:
        found.append(f"{len(rows)} rows of {len(moved)} + {silent} + {after} collectives")
    for row, one in zip(rows, moved):
        said = f"{one['kind']} {one['tensor']} over {' * '.join(one['axes'])} ({one['group_size']} ranks)"
        sent = bytes_text(one["bytes"] * one["sending"])
        if row[0] != said or row[2].split(",")[0] != sent or row[5].replace("`", "").find(one["reason"].replace("`", "")) != 0:
            found.append(f"{row} for {said}, {sent}")
        if one["line"] and f"{one['file']}:{one['line']}" not in row[4]:
            found.append(f"{row[4]} for {one['file']}:{one['line']}")
    largest = page.by_id["largest"]
    if moved:
        most = max(plan["collectives"], key=lambda c: c["bytes"] * c["sending"])
        said = text_of(largest)
        for part in (most["kind"], most["tensor"], bytes_text(most["bytes"] * most["sending"]), f"{most['file']}:{most['line']}", "What removes it"):
            if part not in said:
                found.append(f"the largest: {part} is not in {said}")
    values = page.rows("values") if plan["tensors"] else []
    if sorted((t["name"], bytes_text(t["bytes"])) for t in plan["tensors"]) != sorted((row[0], row[4]) for row in values):
        found.append("other values")
    verdict = text_of(page.by_id["verdict"])
    for part in (bytes_text(plan["memory"]["peak"]), bytes_text(plan["communication_bytes"])):
        if part not in verdict:
            found.append(f"the verdict: {part} is not in {verdict}")
    legend = text_of(page.by_id["memory"])
    found += [f"memory: {kind}" for kind in ("params", "optimizer", "grads", "activations", "workspace") if bytes_text(plan["memory"][kind]) not in legend]
    if "pipeline" in plan:
        stages = page.rows("pipeline")
        if len(stages) != len(plan["pipeline"]["stages"]) + len(plan["pipeline"]["messages"]):
            found.append(f"{len(stages)} rows of a pipeline")
    return found


def write_page(path, *options, code=0):
    done = execute(meshc(), "plan", *options, "--html", path, code=code)
    with open(path, "rb") as file:
        return file.read(), done


def check_spec(report, folder, spec, layout):
    name = f"{spec}, layout {layout or 'of its own'}"
    options = (f"specs/{spec}.mesh", *(("--layout", layout) if layout else ()))
    path = f"{folder}/{spec}-{layout}.html"
    text, done = write_page(path, *options)
    plan = json.loads(execute(meshc(), "plan", *options, "--json").stdout)
    page = Page(text.decode())
    report.true(f"{name}: nothing is printed", done.stdout == "", done.stdout)
    report.true(f"{name}: well-formed, and complete in itself", faults_of(page) == [], faults_of(page))
    report.true(f"{name}: says what the plan says", differs(page, plan) == [], differs(page, plan)[:5])
    return path


HOSTILE = """// </code></td><script>alert("1 & 2")</script> ' \\ &amp; \x01 \u00e9\u4e16
dim a = 8, b = 4
model M {{
  input x : real[a, b]
  param w : real[b] = zeros        // <b>&lt;
  loss = mean[a](dot[b](x, w))
  minimize loss with sgd(lr: 0.1)
}}
mesh line {{ data: 4 }}
layout default on line {{ a -> data }}
{more}"""


def check_text(report, folder):
    """What a spec's author writes stays text; broken budgets and one rank have pages too."""
    path, page = f"{folder}/a<b>&\"'.mesh", f"{folder}/hostile.html"
    with open(path, "w") as file:
        file.write(HOSTILE.format(more=""))
    shown = Page(write_page(page, path)[0].decode())
    first = text_of(shown.by_id["source"].find(".//tbody/tr/td"))
    report.true("text of the spec is text", faults_of(shown) == [] and first == HOSTILE.splitlines()[0].replace("\x01", "\ufffd"), first)
    report.true("so are names of files", "a<b>&\"'.mesh" in [text_of(c) for c in shown.by_id["source"].iter("caption")])
    report.true("the same bytes twice", write_page(page, path)[0] == write_page(page, path)[0])
    with open(path, "w") as file:
        file.write(HOSTILE.format(more="budget default { bytes over data <= 8 B }\n"))
    broken, done = write_page(page, path, code=1)
    broken = Page(broken.decode())
    report.true("a broken budget", "E0416" in done.stderr and "E0416" in text_of(broken.by_id["messages"]) and ["bytes over data <= 8 B"] == [r[0] for r in broken.rows("layout")]
                and "broken" in text_of(broken.by_id["verdict"]) and faults_of(broken) == [], done.stderr)
    alone = Page(write_page(page, path, "--mesh", "data=1")[0].decode())
    report.true("one rank", "Nothing is sent" in text_of(alone.by_id["largest"]) and faults_of(alone) == [])
    with open(path, "w") as file:
        file.write(HOSTILE.format(more="layout found on line { auto }\n"))
    found = Page(write_page(page, path, "--layout", "found")[0].decode())
    report.true("a layout that a search finds", "found by search" in text_of(found.by_id["layout"]) and faults_of(found) == [])


REMEDY = re.compile(r"(?:Nothing that was tried; it sends less, (?P<still>[^,]*), with this\. )?(?:Add (?P<rule>.*?)|Write (?P<new>.*?) in place of (?P<old>.*?)): "
                    r"a step then takes (?P<time>.*?) \(.*?\), sends (?P<sends>.*?) and holds (?P<holds>.*?) a rank\.")


def with_remedy(spec, layout, found):
    """The spec with what the page proposes written into the layout."""
    begin = re.search(rf"^layout {layout}\b[^{{]*{{", spec, re.M).end()
    end, depth = begin, 1
    while depth:
        depth += {"{": 1, "}": -1}.get(spec[end], 0)
        end += 1
    rules = spec[begin:end - 1]
    if found["rule"]:
        return f"{spec[:begin]}{rules}{'' if rules.endswith(chr(10)) else ';'} {found['rule']}\n{spec[end - 1:]}"
    assert rules.count(found["old"]) == 1, found["old"]
    return spec[:begin] + rules.replace(found["old"], found["new"]) + spec[end - 1:]


def check_remedies(report, folder, spec, layout, most):
    """What a page proposes, written into the layout, compiles, helps against the collective, and costs what was said."""
    with open(f"{TOP}/specs/{spec}.mesh") as file:
        text = file.read()
    options = ("--layout", layout) if layout else ()
    with open(f"{folder}/{spec}-{layout}.html") as file:
        page = Page(file.read())
    before = json.loads(execute(meshc(), "plan", f"specs/{spec}.mesh", *options, "--json").stdout)
    sends = lambda plan, row: sum(c["bytes"] * c["sending"] for c in plan["collectives"]
                                  if [f"{c['kind']} {c['tensor']} over {' * '.join(c['axes'])} ({c['group_size']} ranks)", c["phase"]] == [row[0], row[3]])
    plans = {}
    for row in page.rows("collectives"):
        found = REMEDY.fullmatch(row[6]) if len(row) > 6 else None
        if not found:
            report.true(f"{spec}, {layout}: {row[0]}", len(row) == 6 or row[6].startswith(("None of", "Not sought", "It sends nothing", "The search")), row)
            continue
        written = with_remedy(text, before["layout"], found)
        if written not in plans and len(plans) == most:
            continue
        if written not in plans:
            with open(f"{folder}/{spec}.mesh", "w") as file:
                file.write(written)
            plans[written] = json.loads(execute(meshc(), "plan", f"{folder}/{spec}.mesh", *options, "--json").stdout)
        plan = plans[written]
        after = sends(plan, row)
        said = found["still"] == bytes_text(after) if found["still"] else after == 0
        good = said and after < sends(before, row) and [found["sends"], found["holds"]] == [bytes_text(plan["communication_bytes"]), bytes_text(plan["memory"]["peak"])]
        report.true(f"remedy: {spec}, {layout}: {row[0]}: {found['rule'] or found['new']}", good, (after, row[6]))
    return len(plans)


def check_same(report, folder):
    """The bytes do not depend on the time, the place, or how the spec is named; nothing of the host is in them."""
    first = write_page(f"{folder}/first.html", "specs/mlp.mesh", "--layout", "both")[0]
    with open(f"{TOP}/specs/mlp.mesh") as file, open(f"{folder}/mlp.mesh", "w") as copy:
        copy.write(file.read())
    report.true("the same bytes of an absolute path", write_page(f"{folder}/second.html", f"{folder}/mlp.mesh", "--layout", "both")[0] == first)
    report.true("nothing of the host", not [word for word in (TOP, folder, os.uname().nodename) if word.encode() in first])


def check_usage(report, folder):
    for name, said, options, code in (
            ("--all", "--html shows the plan of one layout", ("--all",), 2),
            ("two layouts", "--html shows the plan of one layout", ("--layout", "zero,pipe"), 2),
            ("a folder that is not there", "cannot write", (), 3)):
        path = f"{folder}/none/page.html" if code == 3 else f"{folder}/page.html"
        done = execute(meshc(), "plan", "specs/gpt.mesh", *options, "--html", path, code=code)
        report.true(f"usage: {name}", said in done.stderr and done.stdout == "" and not os.path.exists(path), done.stderr)


def check_browser(report, folder, paths):
    """Chromium shows the pages without a word in its console."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        report.skip("pages in a browser", "there is no chromium")
        return
    for path in paths:
        picture = f"{path}.png"
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/browser", "--enable-logging=stderr",
                               "--window-size=1280,900", f"--screenshot={picture}", f"file://{path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        report.true(f"{os.path.basename(path)} in Chromium", done.returncode == 0 and not console and os.path.getsize(picture) > 20000, console or done.stderr[-500:])


def run(small=False):
    report = Report()
    cases = SMALL if small else [(spec, layout) for spec in SPECS for layout in layouts(spec)]
    with scratch() as folder:
        paths, tried = [], []
        for spec, layout in cases:
            report.attempt(f"{spec}, {layout}", lambda spec=spec, layout=layout: paths.append(check_spec(report, folder, spec, layout)))
        for spec, layout in WITH_REMEDIES if small else cases:
            report.attempt(f"remedies, {spec}, {layout}", lambda spec=spec, layout=layout: tried.append(check_remedies(report, folder, spec, layout, 2 if small else 100)))
        report.true("remedies are found", sum(tried) >= (5 if small else 30), tried)
        report.attempt("text", lambda: check_text(report, folder))
        report.attempt("the same bytes", lambda: check_same(report, folder))
        report.attempt("usage", lambda: check_usage(report, folder))
        report.attempt("browser", lambda: check_browser(report, folder, paths[:2] if small else paths))
    return report
