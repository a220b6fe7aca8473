"""What each stage of a pipeline did in a step, read from the trace of a run."""
import collections
import json
import re


def actions(run_folder):
    """By rank: [(action, begin, end, waited in it)] in seconds."""
    with open(f"{run_folder}/trace.json") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    waits, found = collections.defaultdict(list), collections.defaultdict(list)
    for event in events:
        if event["cat"] == "waiting":
            waits[event["pid"]].append((event["ts"], event["dur"]))
    for event in events:
        if event["cat"] == "stage":
            begin, end = event["ts"], event["ts"] + event["dur"]
            waited = sum(duration for start, duration in waits[event["pid"]] if begin <= start < end)
            found[event["pid"]].append((event["name"], begin / 1e6, end / 1e6, waited / 1e6))
    return found


def work(listed):
    """Seconds that each rank computes, by kind of pass: {rank: {"F": 0.1, "B": 0.2}}"""
    worked = {rank: collections.defaultdict(float) for rank in listed}
    for rank, of_rank in listed.items():
        for name, begin, end, waited in of_rank:
            kind = re.sub(r"\d", "", name)
            if kind in ("F", "R", "B", "I", "W"):
                worked[rank][kind] += end - begin - waited
    return worked
