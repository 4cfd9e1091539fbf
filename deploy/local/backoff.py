"""How long to wait before a dead process is started again."""

FIRST_S = 0.2
LONGEST_S = 5.0
STABLE_S = 10.0


class Backoff:
    """0.2 s, doubling to 5 s; a life of 10 s starts the series anew."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def after(self, alive_s: float) -> float:
        """Seconds to wait after a life of `alive_s`."""
        if alive_s >= STABLE_S:
            self._next_s = FIRST_S
        wait_s = self._next_s
        self._next_s = min(LONGEST_S, wait_s * 2)
        return wait_s
