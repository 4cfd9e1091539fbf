"""Server-sent events: bytes as they come in, the data of each whole event out. Pure."""

_LINE_ENDS = (b"\r\n", b"\r")


class EventStream:
    """Bytes may be cut anywhere. Comments and all fields but `data` are ignored."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> list[bytes]:
        """Data of the events that are complete now; those without data are left out."""
        text = self._rest + received
        if b"\r" in text:
            # A lone CR at the end may be half of a CRLF: it waits for what comes next.
            held = text.endswith(b"\r")
            text = text[: len(text) - held]
            for end in _LINE_ENDS:
                text = text.replace(end, b"\n")
            text += b"\r" * held
        *events, self._rest = text.split(b"\n\n")
        return [data for event in events if (data := _data_of(event))]


def _data_of(event: bytes) -> bytes:
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = [
        line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines)
