"""Numbers as people read them: three digits that matter, never an exponent. Pure."""

import math

MISSING = "–"


def number(value: float | None) -> str:
    """1,235; 123; 12.3; 1.23; 0.0123; 0. What does not exist is a dash."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    digits = max(0, min(6, 2 - math.floor(math.log10(abs(value)))))
    text = f"{value:,.{digits}f}"
    if digits and float(text.replace(",", "")).is_integer() and float(value).is_integer():
        return f"{value:,.0f}"
    return text


def share(value: float | None) -> str:
    """Per cent, with a digit after the point; all and nothing only where it is exactly that."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value in (0, 1):
        return f"{value:.0%}"
    return f"{min(max(value, 0.001), 0.999):.1%}" if 0 < value < 1 else f"{value:.1%}"


def duration(seconds: float) -> str:
    """9.5 s; 45 s; 2 min 05 s; 1 h 02 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def change(ratio: float | None) -> str:
    """A ratio as what it changes: 1.30x."""
    return MISSING if ratio is None or not math.isfinite(ratio) else f"{number(ratio)}×"
