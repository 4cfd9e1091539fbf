from deploy.local.backoff import Backoff


def test_the_wait_doubles_up_to_five_seconds() -> None:
    backoff = Backoff()
    assert [backoff.after(0.1) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_life_of_ten_seconds_starts_the_series_anew() -> None:
    backoff = Backoff()
    for _ in range(4):
        backoff.after(9.9)
    assert backoff.after(10.0) == 0.2
    assert backoff.after(0.1) == 0.4
