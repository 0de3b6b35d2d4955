"""What the executor on a cluster promises of its actors: placed by resources, asked in order, and missed within seconds.

The cluster is pretended (`minfer/testing/fake_ray.py`): no Ray, and no seconds pass. The part is asked for its team, `team_on`.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from minfer.errors import MinferError, PartError
from minfer.testing.fake_ray import FakeRay, Host
from minfer.testing.properties import Case, Place, Property, expect, expect_equal

NOTICED = 10.0  # seconds after which the caller knows of a death
ROOM = [Host({"CPU": 64, "GPU": 8}, {})]


def echo(rank: int, *arguments: Any) -> list[Any]:
    """What an actor does that works."""
    return [rank, *arguments]


def fail(rank: int, how: str) -> None:
    """What an actor does that does not."""
    if how == "ends":
        raise SystemExit(1)
    raise PartError("no such part") if how == "ours" else ZeroDivisionError("division by zero")


def clusters(place: Place) -> st.SearchStrategy[Case]:
    """Hosts with [CPUs, GPUs, CPUs in use, GPUs in use], and when the others go."""
    host = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).map(
        lambda drawn: [drawn[0], drawn[1], min(drawn[0], drawn[2]), min(drawn[1], drawn[3])]
    )
    return st.fixed_dictionaries(
        {
            "hosts": st.lists(host, min_size=1, max_size=4),
            "size": st.integers(1, 4),
            "on_gpu": st.booleans(),
            "frees_after": st.sampled_from([None, 20, 59, 120]),
        }
    )


def check_placement(part: Any, case: Case) -> None:
    """A GPU or a CPU for each rank, reserved together, on whichever hosts; or an error with the numbers, and nothing kept."""
    size, kind = case["size"], "GPU" if case["on_gpu"] else "CPU"
    hosts = [Host(_some(CPU=cpus, GPU=gpus), _some(CPU=busy, GPU=used)) for cpus, gpus, busy, used in case["hosts"]]
    ray = FakeRay(hosts, math.inf if case["frees_after"] is None else case["frees_after"])
    there, bundles = int(ray.cluster_resources().get(kind, 0)), [{kind: 1}] * size
    in_time = ray.fits(bundles, 0) or (ray.frees_at <= 60 and ray.fits(bundles, ray.frees_at))
    free = int(ray.available_resources().get(kind, 0))
    what = f"{size} ranks on a cluster with {there} {kind}s, of which {free} are free (hosts: {case['hosts']})"
    try:
        team, error = part.team_on(ray, size, case["on_gpu"]), None
    except MinferError as raised:
        team, error = None, str(raised)
    if there < size or not in_time:
        expect(error is not None, f"a MinferError: {what}", "none")
        numbers = (size, there) if there < size else (size, free)
        expect(all(str(number) in error for number in numbers), f"an error that says the numbers {numbers}: {what}", repr(error))
        expect(not ray.actors, f"no actor: {what}", f"{len(ray.actors)} actors")
        expect(there >= size or not ray.placements, f"nothing to be waited for: {what}", "a placement group")
    else:
        expect(error is None, f"no error: {what}", error)
        expect_equal([each.bundles for each in ray.placements], [bundles], "placement groups, by their bundles:")
        expect_equal([actor.rank for actor in ray.actors], list(range(size)), "an actor for each rank:")
        for actor in ray.actors:
            where = getattr(actor.options.get("scheduling_strategy"), "placement_group", None)
            expect(where is ray.placements[0], "each actor in the placement group", f"rank {actor.rank} elsewhere")
            expect_equal(actor.options.get(f"num_{kind.lower()}s"), 1, f"{kind}s of each actor:")
        team.close()
    expect_gone(ray, "an error or the end")


def _some(**counts: int) -> dict[str, int]:
    """Ray names no resource of which there is none."""
    return {kind: count for kind, count in counts.items() if count}


def expect_gone(ray: FakeRay, after: str) -> None:
    left = [actor.rank for actor in ray.actors if not actor.killed]
    expect(not left, f"every actor killed after {after}", f"the actors of the ranks {left} are left")
    kept = sum(not group.removed for group in ray.placements)
    expect(not kept, f"the placement group removed after {after}", f"{kept} left")


@st.composite
def conversations(draw: st.DrawFn, place: Place) -> Case:
    """Calls to some of the ranks, of which some results are taken; the last may fail."""
    size = draw(st.integers(1, 3))
    ranks = st.lists(st.integers(0, size - 1), min_size=1, max_size=size, unique=True).map(sorted)
    call = st.fixed_dictionaries({"ranks": ranks, "take": st.booleans()})
    return {
        "size": size,
        "calls": draw(st.lists(call, min_size=1, max_size=5)),
        "fails": draw(st.sampled_from([None, "theirs", "ours", "ends"])),
    }


def check_answers(part: Any, case: Case) -> None:
    """Each rank carries out what it was asked, in order; its values and its failures come to whoever asks for the result."""
    size = case["size"]
    ray = FakeRay(ROOM)
    team = part.team_on(ray, size, False)
    asked: list[list[tuple]] = [[] for _ in range(size)]
    for i, call in enumerate(case["calls"]):
        number = team.call(call["ranks"], echo, i, "plan")
        for rank in call["ranks"]:
            asked[rank].append((i, "plan"))
        for rank in call["ranks"] if call["take"] else []:
            expect_equal(team.result(rank, number), [rank, i, "plan"], f"call {i}, the result of rank {rank}:")
    for rank, actor in enumerate(ray.actors):
        came = [arguments for method, arguments in actor.calls if method is echo]
        expect(len(came) == len(actor.calls), "the caller's method, handed on as it is", "another one")
        expect_equal(came, asked[rank], f"what rank {rank} of {size} is asked:")
    if case["fails"] is not None:
        last = size - 1
        number = team.call([last], fail, case["fails"])
        message = refusal(lambda: team.result(last, number), f"the result of a call that fails ({case['fails']})")
        named = "no such part" if case["fails"] == "ours" else f"rank {last} of {size}"
        expect(named in message, f"an error that says {named!r}", repr(message))
        if case["fails"] == "theirs":
            expect("division by zero" in message, "an error with the rank's own words", repr(message))
        expect_gone(ray, "a failure")
        again = refusal(lambda: team.call([0], echo), "a call after that")
        expect(again == message, f"the same error again: {message!r}", repr(again))
    team.close()
    team.close()
    expect_gone(ray, "the end")


def refusal(run: Any, what: str) -> str:
    try:
        value = run()
    except MinferError as error:
        return str(error)
    expect(False, f"a MinferError from {what}", f"{value!r}")
    raise AssertionError


@st.composite
def silences(draw: st.DrawFn, place: Place) -> Case:
    """How long each rank works; and which one dies or hangs, when."""
    size = draw(st.integers(1, 3))
    return {
        "size": size,
        "seconds": draw(st.lists(st.sampled_from([0.2, 1.5, 4.0, 15.0, 40.0]), min_size=size, max_size=size)),
        "starting": draw(st.sampled_from([0.0, 8.0, 25.0])),  # seconds until the actors' processes are there
        "beat": draw(st.sampled_from([0.01, 0.7, 3.0])),  # until an actor that is well says so
        "event": draw(st.sampled_from([None, "dies", "hangs"])),
        "rank": draw(st.integers(0, size - 1)),
        "at": draw(st.sampled_from([0.1, 1.0, 3.3, 12.0])),
    }


def check_silence(part: Any, case: Case) -> None:
    """The caller waits for rank 0 as long as all are well, and no longer than that."""
    size, event, at = case["size"], case["event"], case["at"]
    ray = FakeRay(ROOM, starting=case["starting"], beat=case["beat"])
    team = part.team_on(ray, size, False)
    ray.seconds = dict.fromkeys(range(size), 6.0)
    number = team.call(range(size), echo, 0)
    try:
        for rank in range(size):
            team.result(rank, number)
    except MinferError as error:
        expect(False, f"no error while {size} actors start for {case['starting']} s and load for 6 s", str(error))
    began, ray.seconds = ray.clock, dict(enumerate(case["seconds"]))
    number = team.call(range(size), echo, 1)
    if event is not None:
        setattr(ray.actors[case["rank"]], f"{event}_at", began + at)
    ends = case["seconds"][0] if event is None or case["rank"] or case["seconds"][0] <= at else math.inf
    story = f"rank 0 works for {case['seconds'][0]} s" + (f", rank {case['rank']} of {size} {event} at {at} s" if event else "")
    try:
        value, error = team.result(0, number), None
    except MinferError as raised:
        value, error = None, str(raised)
    took = ray.clock - began
    if event is None or ends < at:
        expect(error is None, f"no error: {story}, and every actor answers within {case['beat']} s", error)
    if error is None:
        expect_equal(value, [0, 1], f"{story}; the result")
        expect(abs(took - ends) < 0.1, f"the result when it is there: {story}", f"it came at {took:.1f} s")
        expect(event is None or ends <= at + NOTICED, f"an error within {NOTICED:.0f} s: {story}", f"a result at {took:.1f} s")
    else:
        named = f"rank {case['rank']} of {size}"
        expect(named in error, f"an error that names {named}: {story}", repr(error))
        expect(took >= at - 0.01, f"no error before it happens: {story}", f"one at {took:.1f} s")
        expect(took <= at + NOTICED, f"an error within {NOTICED:.0f} s: {story}", f"one at {took:.1f} s")
        expect_gone(ray, "a failure")
    team.close()


PROPERTIES = [
    Property(
        "placement",
        "A GPU or CPU for each rank, reserved together and on any hosts; an error with the numbers where there are too few.",
        clusters,
        check_placement,
        150,
    ),
    Property(
        "answers",
        "Ranks do what they are asked, in order; values and failures come to the caller.",
        conversations,
        check_answers,
        100,
    ),
    Property(
        "silence",
        "A rank that dies or hangs is named within ten seconds; one that only works for long is left alone.",
        silences,
        check_silence,
        150,
    ),
]
