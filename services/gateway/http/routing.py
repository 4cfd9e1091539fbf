"""Which handler answers a path: our own table, so that doubled slashes are tolerated everywhere
and a wrong path or method gets the same JSON error as everything else.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from services.gateway.http.call import Call
from services.gateway.http.errors import HttpProblem

Handler = Callable[[Call], Awaitable[web.StreamResponse]]
_SLASHES = re.compile(r"/{2,}")


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    """Ends in `/*` if anything may follow; what does is the call's `tail`."""
    handler: Handler

    def matches(self, path: str) -> bool:
        if self.path.endswith("/*"):
            return path.startswith(self.path[:-1]) and len(path) >= len(self.path)
        return path == self.path


def find_route(routes: Sequence[Route], method: str, path: str) -> tuple[Route, str]:
    """(route, tail). Raises HttpProblem 404 or 405."""
    path = _SLASHES.sub("/", path)
    if len(path) > 1:
        path = path.removesuffix("/")
    found = [route for route in routes if route.matches(path)]
    if not found:
        raise HttpProblem(404, f"there is nothing at {path}")
    wanted = "GET" if method == "HEAD" else method
    for route in found:
        if route.method == wanted:
            return route, path[len(route.path) - 1 :] if route.path.endswith("/*") else ""
    allow = ", ".join(sorted(route.method for route in found))
    raise HttpProblem(405, f"{path} does not understand {method}", allow=allow)
