from functools import partial

from loadtest.predict.virtual_clock import VirtualClock


def test_calls_happen_at_their_moments_and_may_ask_for_more() -> None:
    clock, seen = VirtualClock(), list[tuple[str, float]]()

    def first() -> None:
        seen.append(("first", clock.now))
        clock.after(0.5, lambda: seen.append(("later", clock.now)))

    clock.at(2.0, lambda: seen.append(("second", clock.now)))
    clock.at(1.0, first)
    clock.run()
    assert seen == [("first", 1.0), ("later", 1.5), ("second", 2.0)]


def test_calls_of_one_moment_keep_their_order() -> None:
    clock, seen = VirtualClock(), list[int]()
    for number in range(5):
        clock.at(1.0, partial(seen.append, number))
    clock.run()
    assert seen == [0, 1, 2, 3, 4]


def test_a_moment_that_is_past_is_now() -> None:
    clock, seen = VirtualClock(), list[float]()
    clock.at(3.0, lambda: clock.at(1.0, lambda: seen.append(clock.now)))
    clock.run()
    assert seen == [3.0]
