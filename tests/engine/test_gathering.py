import threading

from ledger.domain.batch import Outcome
from ledger.engine.gathering import Call, Gathering, Step
from tests.engine.asks import begin, budget, release, reserve, unknown

DONE = Outcome()


def names(steps: list[Step] | None) -> list[str]:
    assert steps is not None
    return [step.command.key for step in steps]


def finish(gathering: Gathering, steps: list[Step] | None) -> list[Call]:
    assert steps is not None
    return gathering.done(steps, [DONE] * len(steps))


def test_a_hold_has_one_step_in_a_batch_and_its_steps_keep_their_order() -> None:
    gathering = Gathering(100, 10)
    gathering.put(Call([reserve("a", "1"), begin("a"), unknown("a"), reserve("b", "1")]))
    waves = []
    for _ in range(3):
        steps = gathering.take()
        waves.append(names(steps))
        finish(gathering, steps)
    assert waves == [["r-a", "r-b"], ["b-a"], ["u-a"]]
    assert gathering.waiting == 0


def test_an_idempotency_key_is_in_one_batch_at_a_time() -> None:
    gathering = Gathering(100, 10)
    gathering.put(Call([reserve("a", "1", key="same"), reserve("b", "1", key="same"), budget("x", "1")]))
    first = gathering.take()
    assert names(first) == ["same", "create-x"]
    finish(gathering, first)
    assert names(gathering.take()) == ["same"]


def test_a_step_behind_its_key_keeps_those_behind_its_hold_waiting() -> None:
    gathering = Gathering(100, 10)
    # b's first step waits for the key of a's; b's second must not overtake it.
    gathering.put(Call([reserve("a", "1", key="same"), reserve("b", "1", key="same"), release("b")]))
    first = gathering.take()
    assert names(first) == ["same"]
    finish(gathering, first)
    second = gathering.take()
    assert names(second) == ["same"]
    finish(gathering, second)
    assert names(gathering.take()) == ["x-b"]


def test_with_two_lanes_a_hold_in_one_batch_is_not_in_the_other() -> None:
    gathering = Gathering(100, 1)
    gathering.put(Call([reserve("a", "1"), begin("a"), reserve("b", "1")]))
    one, other = gathering.take(), gathering.take()
    assert (names(one), names(other)) == (["r-a"], ["r-b"])
    finish(gathering, other)
    taken: list[list[str]] = []
    lane = threading.Thread(target=lambda: taken.append(names(gathering.take())))
    lane.start()
    lane.join(0.05)
    assert lane.is_alive(), "the next step of a is given out only when its batch is done"
    finish(gathering, one)
    lane.join(5)
    assert taken == [["b-a"]]


def test_a_batch_has_a_limit_and_the_queue_has_a_bound() -> None:
    gathering = Gathering(4, 3)
    assert gathering.put(Call([reserve(str(i), "1") for i in range(4)]))
    assert not gathering.put(Call([reserve("late", "1")]))
    steps = gathering.take()
    assert names(steps) == ["r-0", "r-1", "r-2"]
    # What has begun does not wait any more.
    assert not gathering.put(Call([reserve(str(i), "1") for i in range(10, 14)])), "all or none"
    assert gathering.put(Call([reserve(str(i), "1") for i in range(10, 13)]))


def test_a_call_is_complete_when_its_last_step_is_done() -> None:
    gathering = Gathering(100, 1)
    call = Call([reserve("a", "1"), reserve("b", "1")])
    gathering.put(call)
    assert finish(gathering, gathering.take()) == []
    assert finish(gathering, gathering.take()) == [call]
    assert call.answers() == [DONE, DONE]


def test_closed_it_gives_out_what_it_has_and_takes_nothing_more() -> None:
    gathering = Gathering(100, 10)
    gathering.put(Call([reserve("a", "1"), begin("a")]))
    gathering.close()
    assert not gathering.put(Call([reserve("b", "1")]))
    first = gathering.take()
    finish(gathering, first)
    second = gathering.take()
    finish(gathering, second)
    assert (names(first), names(second)) == (["r-a"], ["b-a"])
    assert gathering.take() is None
