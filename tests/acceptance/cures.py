"""Every line of .mesh that a message, its help or an explanation proposes is compiled and run: in the specs of cures/ (`cured.py`), each of which shows what
it cures; casts and renames where the error was (`helps.py`); every help stands in a golden (`shown_helps.py`); and what other libraries have, against NumPy (`other_names.py`)."""
from concurrent.futures import ThreadPoolExecutor

import cured
import other_names
import proposed
from common import Report, scratch
from helps import check_helps
from shown_helps import check_shown


def check_coverage(report, specs):
    """Of each text: it stands in a spec that cures what it is said of. Of each page: there is such a spec."""
    words = {spec.name: proposed.tokens(spec.shown()) for spec in specs}
    every = proposed.proposals()
    missing = [one for one in every if not any(one.code in spec.codes() and proposed.stands_in(one.text, words[spec.name]) for spec in specs)]
    for one in missing:
        report.true(f"{one.where}: `{one.text}`", False, f"stands in no spec of tests/acceptance/cures that cures {one.code}")
    report.check("texts that helps and explanations propose, in specs that cure what they are said of", len(every) - len(missing), f"{len(every)}, at least 400",
                 not missing and len(every) >= 400)
    shown = {code for spec in specs for code in spec.codes()}
    report.true(f"every page with a cure has a spec that shows it ({len(proposed.pages())} pages)", proposed.pages().keys() <= shown, sorted(proposed.pages().keys() - shown))
    stale = proposed.NO_LINE.keys() - proposed.every_text()
    report.true("what is listed as no line is said somewhere", not stale, sorted(stale))


def check_specs(report, specs, folder):
    """Each spec after its cures, and before each of them."""
    jobs = [(cured.wrong_after, spec) for spec in specs] + [(cured.wrong_before, spec, mark) for spec in specs for mark in spec.marks]
    with ThreadPoolExecutor(2) as pool:
        wrong = [one for one in pool.map(lambda job: job[1][0](f"{folder}/{job[0]}", *job[1][1:]), enumerate(jobs)) if one]
    for one in wrong:
        report.true("a cure", False, one)
    marks = len(jobs) - len(specs)
    report.check("specs that are compiled and run, and refused without their cures", len(jobs) - len(wrong), f"{len(specs)} + {marks}, at least 60 + 400",
                 not wrong and len(specs) >= 60 and marks >= 400)


def run(small):
    report = Report()
    specs = cured.specs()
    with scratch() as folder:
        report.attempt("helps", lambda: check_shown(report))
        report.attempt("coverage", lambda: check_coverage(report, specs))
        report.attempt("specs", lambda: check_specs(report, specs, folder))
        elsewhere = other_names.check_elsewhere(report, folder)
        other_names.check_suggestions(report, folder, elsewhere)
        check_helps(report, folder)
    return report
